// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

const createLong = `Create a cluster and wait until it exists. The flags are the create parameters of the portal's API. All are required
except --network-id and those with a default.

Without --network-id the portal makes an isolated network for the cluster, which cannot route to anything else
without extra setup. Choose a name that no other cluster has: the portal does not require unique names, and a
person needs the name to find a cluster whose id got lost. If the portal lists clusters, which not every portal does,
and one has the name, nothing is created. It is shown if it runs. Otherwise the command fails.

The call is sent once. If its answer is lost (exit code 8), it is unknown whether the cluster was created, and the
message says how to find out. Do not put this command into a loop that repeats it.`

func (a *app) clustersCreate() *cobra.Command {
	var r cloud.CreateClusterRequest
	var choice versionChoice
	var w waiting
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a cluster",
		Long:  createLong,
		Example: `  portalctl clusters create --name demo-x7k2p --zone-id zone-1 --version v1.36.3 --service-offering-id medium \
    --size 3 --vpc-id vpc-1 --network-id net-1 --ssh-key-pair ops`,
		Args: cobra.NoArgs,
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, _ []string) error {
			var err error
			if r.KubernetesVersionID, err = choice.resolve(ctx, client, w); err != nil {
				return err
			}
			return a.createCluster(ctx, client, r, w)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&r.Name, "name", "", "name of the cluster")
	f.StringVar(&r.Description, "description", "Created with portalctl", "free text")
	f.StringVar(&r.ZoneID, "zone-id", "", "zone (zoneId)")
	f.StringVar(&r.ServiceOfferingID, "service-offering-id", "", "service offering of the nodes (serviceOfferingId)")
	f.IntVar(&r.Size, "size", 0, "number of worker nodes")
	f.IntVar(&r.ControlNodes, "control-nodes", 3, "number of control nodes, 3 for high availability (controlNodes)")
	f.StringVar(&r.VPCID, "vpc-id", "", "VPC that holds the network (vpcId). 'portalctl vpcs list' lists them")
	f.StringVar(&r.NetworkID, "network-id", "", "network or tier for the nodes (networkId). 'portalctl networks create' creates one")
	f.StringVar(&r.SSHKeyPair, "ssh-key-pair", "", "name of an SSH key pair (sshKeyPair)")
	choice.bind(a, cmd)
	a.completeFlag(cmd, "zone-id", offerNamed(fieldZone))
	a.completeFlag(cmd, "vpc-id", offerVPCs)
	a.completeFlag(cmd, "network-id", offerNamed(fieldNetwork))
	for _, name := range []string{"name", "zone-id", "service-offering-id", "size", "vpc-id", "ssh-key-pair"} {
		must(cmd.MarkFlagRequired(name))
	}
	w.bind(cmd)
	return cmd
}

// createCluster looks the name up before it creates a cluster, as the specification advises for scripts ("Limits", rule 4). Not every
// portal can do that.
func (a *app) createCluster(ctx context.Context, client *cloud.Client, r cloud.CreateClusterRequest, w waiting) error {
	there, err := client.FindClusters(ctx, r.Name)
	if err != nil && !cloud.IsUnsupported(err) {
		return err
	}
	if len(there) == 1 {
		if runs, err := there[0].Runs(ctx, client); err != nil {
			return err
		} else if !runs {
			return doesNotRun(there[0])
		}
	}
	if len(there) > 0 {
		return reuse(a, "cluster", "kubernetesCluster", r.Name, there, func(c cloud.Cluster) map[string]any { return record(c.Raw, c.ID) })
	}
	if r.NetworkID == "" {
		a.say("Without --network-id, the portal creates an isolated network for this cluster.")
	}
	began := time.Now()
	return a.operate(ctx, client, operation{
		kind:  "create",
		what:  "create of cluster " + r.Name,
		call:  func(ctx context.Context) (cloud.Job, error) { return client.CreateCluster(ctx, r) },
		lost:  func(ctx context.Context) string { return lostCluster(ctx, client, r.Name, began) },
		makes: cloud.KindCluster, name: r.Name,
		undone: fmt.Sprintf("A record of cluster %s may remain at the portal. Look for it there before you create the cluster again", r.Name),
	}, w)
}

// doesNotRun is the failure for a cluster of the name that is being created or deleted, or whose creation has failed. The command was asked for
// another one.
func doesNotRun(c cloud.Cluster) error {
	return &failure{
		code: exitRefused,
		err:  fmt.Errorf("cluster %s exists already (id %s, %s), but does not run", cell(c.Name), cell(c.ID), cmp.Or(cell(c.State), "its state is not shown")),
		advice: "if it is being created or deleted, run the command again later. If its creation has failed, delete it first: portalctl clusters delete " +
			cell(c.ID),
	}
}

// lostCluster returns how to find out whether the cluster exists. The portal is asked once, because some portals list
// clusters, although the specification does not.
func lostCluster(ctx context.Context, client *cloud.Client, name string, began time.Time) string {
	found, err := client.FindClusters(ctx, name)
	var known string
	switch {
	case err != nil:
		known = "This portal's API does not list clusters, so a person has to look."
		if !cloud.IsUnsupported(err) {
			known = fmt.Sprintf("The portal did not answer (%v), so a person has to look.", err)
		}
	case len(found) == 0:
		known = fmt.Sprintf("The portal lists no cluster named %s now, which may change.", name)
	default:
		ids := make([]string, len(found))
		for i, c := range found {
			ids[i] = cell(c.ID) + " (" + cell(c.State) + ")"
		}
		known = fmt.Sprintf("The portal lists under that name: %s. It may be an older one.", strings.Join(ids, ", "))
	}
	return fmt.Sprintf(`find out first whether the cluster exists. Running the command again could create a second one.
  %s
  1. Look at the portal for a cluster named %s, created about %s.
     Its nodes would appear in 'portalctl instances list'.
  2. If it exists, continue with its id: portalctl clusters config ID
  3. If it does not exist after some minutes, the request was lost: run the command again`,
		known, name, began.UTC().Format("2006-01-02 15:04:05 UTC"))
}
