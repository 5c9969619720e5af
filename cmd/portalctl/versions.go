// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// versionRecord is a Kubernetes version in the form of the specification.
type versionRecord struct {
	ID              string `json:"id"`
	SemanticVersion string `json:"semanticVersion"`
	State           string `json:"state"`
}

func (a *app) versionsCommand() *cobra.Command {
	list := func(use, short string) *cobra.Command {
		return &cobra.Command{
			Use:   use,
			Short: short,
			Args:  cobra.NoArgs,
			RunE: a.withClient(func(ctx context.Context, client *cloud.Client, _ []string) error {
				versions, err := client.KubernetesVersions(ctx)
				if err != nil {
					return err
				}
				return a.printVersions(versions)
			}),
		}
	}
	cmd := list("versions", "List the Kubernetes versions on offer")
	cmd.AddCommand(list("list", "The same as 'portalctl versions', like the other lists"))
	return cmd
}

func (a *app) printVersions(versions []cloud.KubernetesVersion) error {
	records := make([]versionRecord, 0, len(versions))
	t := table{header: []string{"ID", "VERSION", "STATE"}}
	for _, v := range versions {
		records = append(records, versionRecord(v))
		t.rows = append(t.rows, []string{v.ID, v.SemanticVersion, v.State})
	}
	return a.print(map[string]any{"versions": records}, t)
}

// versionChoice is a Kubernetes version, named by people or by its id.
type versionChoice struct{ version, id string }

func (c *versionChoice) bind(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.version, "version", "", "Kubernetes version, such as v1.36.3 ('portalctl versions' lists them)")
	cmd.Flags().StringVar(&c.id, "kubernetes-version-id", "", "Kubernetes version by its id (kubernetesVersionId)")
	a.completeFlag(cmd, "version", offerVersions)
	a.completeFlag(cmd, "kubernetes-version-id", offerVersionIDs)
	cmd.MarkFlagsOneRequired("version", "kubernetes-version-id")
	cmd.MarkFlagsMutuallyExclusive("version", "kubernetes-version-id")
}

// resolve returns the id, and asks the portal only if it is not given.
func (c *versionChoice) resolve(ctx context.Context, client *cloud.Client, w waiting) (string, error) {
	if c.id != "" {
		return c.id, nil
	}
	ctx, cancel := w.within(ctx)
	defer cancel()
	versions, err := client.KubernetesVersions(ctx)
	if err != nil {
		return "", w.unsent(ctx, err)
	}
	return pickVersion(versions, c.version)
}

// pickVersion finds the wanted version. A leading v and build metadata make no difference.
func pickVersion(versions []cloud.KubernetesVersion, wanted string) (string, error) {
	var ids, offered []string
	for _, v := range versions {
		offered = append(offered, cell(v.SemanticVersion))
		if bare(v.SemanticVersion) == bare(wanted) {
			ids = append(ids, v.ID)
		}
	}
	switch len(ids) {
	case 1:
		return ids[0], nil
	case 0:
		return "", &failure{
			code:   exitNotFound,
			err:    fmt.Errorf("the portal does not offer Kubernetes %s", wanted),
			advice: "take one of " + strings.Join(offered, ", "),
		}
	}
	return "", usageError("name one with --kubernetes-version-id", "the portal offers Kubernetes %s under several ids: %s", wanted, strings.Join(ids, ", "))
}

func bare(version string) string {
	version, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(version), "v"), "+")
	return version
}
