// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

func (a *app) clustersCommand() *cobra.Command {
	cmd := group("clusters", "Managed Kubernetes clusters", a.clustersCreate(), a.clustersFind(), a.clustersConfig(), a.clustersScale(),
		a.clustersUpgrade(), a.clustersDelete())
	cmd.Long = `Managed Kubernetes clusters. The portal's specification has no list of them: keep the id that 'clusters create' prints.

Change a cluster that the provider manages through its Cluster API objects: the provider restores the size and version
that these ask for.`
	return cmd
}

func (a *app) clustersFind() *cobra.Command {
	return &cobra.Command{
		Use:   "find NAME",
		Short: "Find clusters by name, at a portal that lists clusters",
		Long: `Find the clusters of exactly this name. The specification has no such request, so not every portal answers it:
'portalctl doctor' shows whether yours does. The exit code is 4 if no cluster has this name.`,
		Args: cobra.ExactArgs(1),
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, args []string) error {
			found, err := client.FindClusters(ctx, args[0])
			switch {
			case cloud.IsUnsupported(err):
				return &failure{code: exitRefused, err: err, advice: "this portal's API does not list clusters. Look for the cluster at the portal, " +
					"or for its nodes with 'portalctl instances list'"}
			case err != nil:
				return err
			case len(found) == 0:
				return &failure{code: exitNotFound, err: fmt.Errorf("the portal lists no cluster named %s", args[0])}
			}
			return a.printClusters(found)
		}),
	}
}

func (a *app) printClusters(clusters []cloud.Cluster) error {
	records := make([]any, 0, len(clusters))
	t := table{header: []string{"ID", "NAME", "STATE"}}
	for _, c := range clusters {
		records = append(records, record(c.Raw, c.ID))
		t.rows = append(t.rows, []string{c.ID, c.Name, c.State})
	}
	return a.print(map[string]any{"kubernetesClusters": records}, t)
}

func (a *app) clustersConfig() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "config CLUSTER_ID",
		Short: "Fetch the kubeconfig of a running cluster",
		Long: `Fetch the kubeconfig of a running cluster. It contains credentials: --file writes a file that only you can read, and never
overwrites an existing one.`,
		Example:           "  portalctl clusters config k8s-1 --file k8s-1.kubeconfig\n  kubectl --kubeconfig k8s-1.kubeconfig get nodes",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeArgument(offerNamed(fieldCluster)),
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, args []string) error {
			kubeconfig, err := client.Kubeconfig(ctx, args[0])
			if err != nil {
				return err
			}
			return a.writeKubeconfig(kubeconfig, file)
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "write it to this `file` instead of standard output")
	must(cmd.MarkFlagFilename("file"))
	return cmd
}

// writeKubeconfig hands out a kubeconfig: as it is, or as the field of the specification.
func (a *app) writeKubeconfig(kubeconfig []byte, file string) error {
	if file == "" && a.output != formatTable {
		return a.printValue(map[string]string{"kubeconfig": string(kubeconfig)})
	}
	if file == "" {
		_, err := a.out.Write(kubeconfig)
		return err
	}
	err := writeNew(file, func(w io.Writer) error { _, err := w.Write(kubeconfig); return err })
	if err != nil {
		return fmt.Errorf("the kubeconfig was not written: %w", err)
	}
	a.say("Wrote %s.", file)
	return nil
}

// writeNew writes a file that does not exist yet. If that fails, it leaves no part of it, which the next try would refuse to overwrite.
func writeNew(file string, write func(io.Writer) error) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = errors.Join(write(f), f.Close()); err != nil {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

func (a *app) clustersScale() *cobra.Command {
	var size int
	var w waiting
	cmd := &cobra.Command{
		Use:               "scale CLUSTER_ID",
		Short:             "Set the number of worker nodes",
		Long:              "Set the number of worker nodes. The portal chooses which ones it removes, and does not change the control nodes.",
		Example:           "  portalctl clusters scale k8s-1 --size 5",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeArgument(offerNamed(fieldCluster)),
		PreRunE: func(*cobra.Command, []string) error {
			if size < 0 {
				return fmt.Errorf("--size %d is not a number of nodes", size)
			}
			return nil
		},
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, args []string) error {
			return a.operate(ctx, client, operation{
				kind: "scale",
				what: fmt.Sprintf("scale of cluster %s to %d", args[0], size),
				call: func(ctx context.Context) (cloud.Job, error) { return client.ScaleCluster(ctx, args[0], size) },
				lost: repeatable,
			}, w)
		}),
	}
	cmd.Flags().IntVar(&size, "size", 0, "number of worker nodes")
	must(cmd.MarkFlagRequired("size"))
	w.bind(cmd)
	return cmd
}

func (a *app) clustersUpgrade() *cobra.Command {
	var choice versionChoice
	var w waiting
	cmd := &cobra.Command{
		Use:   "upgrade CLUSTER_ID",
		Short: "Upgrade a cluster to another Kubernetes version",
		Long: `Upgrade a cluster to another Kubernetes version: control nodes first, then the workers one at a time. According to the
portal's specification, 5 nodes take 15 to 20 minutes. For more than 7 nodes, set a longer --timeout.`,
		Example:           "  portalctl clusters upgrade k8s-1 --version v1.36.3",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeArgument(offerNamed(fieldCluster)),
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, args []string) error {
			version, err := choice.resolve(ctx, client, w)
			if err != nil {
				return err
			}
			return a.operate(ctx, client, operation{
				kind: "upgrade",
				what: fmt.Sprintf("upgrade of cluster %s to %s", args[0], cmp.Or(choice.version, choice.id)),
				call: func(ctx context.Context) (cloud.Job, error) { return client.UpgradeCluster(ctx, args[0], version) },
				lost: repeatable,
			}, w)
		}),
	}
	choice.bind(a, cmd)
	w.bind(cmd)
	return cmd
}

func (a *app) clustersDelete() *cobra.Command {
	var yes bool
	var w waiting
	cmd := &cobra.Command{
		Use:   "delete CLUSTER_ID",
		Short: "Delete a cluster with all its nodes",
		Long: `Delete a cluster: its nodes, its control plane and its record. Its volumes are not deleted (see 'portalctl volumes
delete'), nor is a network that 'networks create' made for it.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeArgument(offerNamed(fieldCluster)),
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, args []string) error {
			if err := a.confirm(ctx, yes, "Delete cluster "+args[0]+" with all its nodes? (Volumes stay.)"); err != nil {
				return err
			}
			return a.operate(ctx, client, operation{
				kind: "delete",
				what: "delete of cluster " + args[0],
				call: func(ctx context.Context) (cloud.Job, error) { return client.DeleteCluster(ctx, args[0]) },
				lost: repeatable,
			}, w)
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	w.bind(cmd)
	return cmd
}
