// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

func (a *app) clustersCommand() *cobra.Command {
	cmd := group("clusters", "Managed Kubernetes clusters", a.clustersCreate(), a.clustersConfig(), a.clustersScale(),
		a.clustersUpgrade(), a.clustersDelete())
	cmd.Long = `Managed Kubernetes clusters. The portal's API cannot list them: keep the id that 'clusters create' prints.

A cluster that the provider manages is better changed through its Cluster API objects: the provider sets size and
version to what those say.`
	return cmd
}

func (a *app) clustersConfig() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "config CLUSTER_ID",
		Short: "Fetch the kubeconfig of a running cluster",
		Long: `Fetch the kubeconfig of a running cluster. It holds credentials: --file writes it for you alone to read, and never over a
file that is there.`,
		Example: "  portalctl clusters config k8s-1 --file k8s-1.kubeconfig\n  kubectl --kubeconfig k8s-1.kubeconfig get nodes",
		Args:    cobra.ExactArgs(1),
		RunE: a.runs(func(ctx context.Context, args []string) error {
			client, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer client.Close()
			kubeconfig, err := client.Kubeconfig(ctx, args[0])
			if err != nil {
				return err
			}
			return a.deliver(kubeconfig, file)
		}),
	}
	cmd.Flags().StringVar(&file, "file", "", "write it to this `file` instead of standard output")
	must(cmd.MarkFlagFilename("file"))
	return cmd
}

// deliver hands out a kubeconfig: as it is, or as the field of the specification.
func (a *app) deliver(kubeconfig []byte, file string) error {
	if file == "" && a.output != formatTable {
		return a.printValue(map[string]string{"kubeconfig": string(kubeconfig)})
	}
	if file == "" {
		_, err := a.out.Write(kubeconfig)
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("the kubeconfig was not written: %w", err)
	}
	_, err = f.Write(kubeconfig)
	if err = errors.Join(err, f.Close()); err == nil {
		a.say("Wrote %s.", file)
	}
	return err
}

func (a *app) clustersScale() *cobra.Command {
	var size int
	var w waiting
	cmd := &cobra.Command{
		Use:     "scale CLUSTER_ID",
		Short:   "Set the number of worker nodes",
		Long:    "Set the number of worker nodes. The portal chooses which ones go, and does not change the control nodes.",
		Example: "  portalctl clusters scale k8s-1 --size 5",
		Args:    cobra.ExactArgs(1),
		RunE: a.runs(func(ctx context.Context, args []string) error {
			if size < 0 {
				return wrong("give the number of workers there shall be", "--size %d is no number of nodes", size)
			}
			client, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer client.Close()
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
		Short: "Move a cluster to another Kubernetes version",
		Long: `Move a cluster to another Kubernetes version: control nodes first, then the workers one at a time. The portal's
specification names 15 to 20 minutes for 5 nodes.`,
		Example: "  portalctl clusters upgrade k8s-1 --version v1.36.3",
		Args:    cobra.ExactArgs(1),
		RunE: a.runs(func(ctx context.Context, args []string) error {
			client, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer client.Close()
			version, err := choice.resolve(ctx, client)
			if err != nil {
				return err
			}
			return a.operate(ctx, client, operation{
				kind: "upgrade",
				what: fmt.Sprintf("upgrade of cluster %s to %s", args[0], either(choice.version, choice.id)),
				call: func(ctx context.Context) (cloud.Job, error) { return client.UpgradeCluster(ctx, args[0], version) },
				lost: repeatable,
			}, w)
		}),
	}
	choice.bind(cmd)
	w.bind(cmd)
	return cmd
}

func (a *app) clustersDelete() *cobra.Command {
	var yes bool
	var w waiting
	cmd := &cobra.Command{
		Use:   "delete CLUSTER_ID",
		Short: "Delete a cluster with all its nodes",
		Long: `Delete a cluster: its nodes, its control plane and its record. Volumes are not deleted with it; see 'portalctl volumes
delete'. A network made for it with 'networks create' stays as well.`,
		Args: cobra.ExactArgs(1),
		RunE: a.runs(func(ctx context.Context, args []string) error {
			client, err := a.connect(ctx)
			if err != nil {
				return err
			}
			defer client.Close()
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
