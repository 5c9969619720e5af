// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

const createLong = `Create a cluster and wait until it is there. The flags are the create parameters of the portal's API; all are required
but --network-id, and those that have defaults.

Without --network-id the portal makes an isolated network for the cluster, which cannot route to anything else
without extra setup. Choose a name that no other cluster has: names need not be unique at the portal, and the name is
how a person finds a cluster whose id got lost.

The call is sent once. If its answer is lost, exit code 8, nobody knows whether there is a cluster now: the message
says how to find out. Do not put this command into a loop that repeats it.`

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
		RunE: a.runs(func(ctx context.Context, _ []string) error {
			client, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer client.Close()
			if r.KubernetesVersionID, err = choice.resolve(ctx, client); err != nil {
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
	f.IntVar(&r.ControlNodes, "control-nodes", 3, "number of control nodes; 3 for high availability (controlNodes)")
	f.StringVar(&r.VPCID, "vpc-id", "", "VPC that holds the network; 'portalctl vpcs list' lists them (vpcId)")
	f.StringVar(&r.NetworkID, "network-id", "", "network or tier for the nodes; 'portalctl networks create' makes one (networkId)")
	f.StringVar(&r.SSHKeyPair, "ssh-key-pair", "", "name of an SSH key pair (sshKeyPair)")
	choice.bind(cmd)
	for _, name := range []string{"name", "zone-id", "service-offering-id", "size", "vpc-id", "ssh-key-pair"} {
		must(cmd.MarkFlagRequired(name))
	}
	w.bind(cmd)
	return cmd
}

func (a *app) createCluster(ctx context.Context, client *cloud.Client, r cloud.CreateClusterRequest, w waiting) error {
	if r.NetworkID == "" {
		a.say("No --network-id: the portal makes an isolated network for this cluster.")
	}
	began := time.Now()
	return a.operate(ctx, client, operation{
		kind:  "create",
		what:  "create of cluster " + r.Name,
		call:  func(ctx context.Context) (cloud.Job, error) { return client.CreateCluster(ctx, r) },
		lost:  func(ctx context.Context) string { return lostCluster(ctx, client, r.Name, began) },
		makes: cloud.KindCluster, name: r.Name,
		undone: fmt.Sprintf("A record of cluster %s may remain at the portal: before you create it again, look for it there", r.Name),
	}, w)
}

// lostCluster says how to find out whether there is a cluster. The portal is asked once, in case it lists clusters,
// which its specification does not say.
func lostCluster(ctx context.Context, client *cloud.Client, name string, began time.Time) string {
	found, err := client.FindClusters(ctx, name)
	var known string
	switch {
	case err != nil:
		known = "This portal's API does not list clusters, so that takes a person."
		if !cloud.IsUnsupported(err) {
			known = fmt.Sprintf("The portal did not tell (%v), so that takes a person.", err)
		}
	case len(found) == 0:
		known = fmt.Sprintf("The portal lists no cluster named %s at this moment, which may change.", name)
	default:
		ids := make([]string, len(found))
		for i, c := range found {
			ids[i] = cell(c.ID) + " (" + cell(c.State) + ")"
		}
		known = fmt.Sprintf("The portal lists under that name: %s. It may be an older one.", strings.Join(ids, ", "))
	}
	return fmt.Sprintf(`find out whether the cluster exists, before anything else; running the command again could make a second one.
  %s
  1. Look at the portal for a cluster named %s, created about %s.
     Its nodes would show in 'portalctl instances list'.
  2. If it is there, go on with its id: portalctl clusters config ID
  3. If it is not there after some minutes, the request was lost: run the command again`,
		known, name, began.UTC().Format("2006-01-02 15:04:05 UTC"))
}
