// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

func (a *app) volumesCommand() *cobra.Command {
	return group("volumes", "Volumes (the portal's API can only delete them)", a.volumesDelete())
}

func (a *app) volumesDelete() *cobra.Command {
	var yes bool
	var w waiting
	cmd := &cobra.Command{
		Use:   "delete VOLUME_ID",
		Short: "Delete a volume with the data on it",
		Long:  "Delete a volume with the data on it. The volumes of a cluster are not deleted with it. Delete them with this command.",
		Args:  cobra.ExactArgs(1),
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, args []string) error {
			if err := a.confirm(ctx, yes, "Delete volume "+args[0]+" with the data on it?"); err != nil {
				return err
			}
			return a.operate(ctx, client, operation{
				kind: "volume",
				what: "delete of volume " + args[0],
				call: func(ctx context.Context) (cloud.Job, error) { return client.DeleteVolume(ctx, args[0]) },
				lost: repeatable,
			}, w)
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	w.bind(cmd)
	return cmd
}
