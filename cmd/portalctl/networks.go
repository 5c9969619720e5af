// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

func (a *app) networksCommand() *cobra.Command {
	return group("networks", "Networks for clusters (the portal's API can neither list nor delete them)", a.networksCreate())
}

func (a *app) networksCreate() *cobra.Command {
	var request cloud.CreateNetworkRequest
	var w waiting
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a network with an address range",
		Long: `Create a network. Use its id as --network-id of 'clusters create'. Keep the id: the portal's API can neither list nor
delete networks. A /24 has 251 usable addresses. Use a /23 for more than 200 nodes.`,
		Example: "  portalctl networks create --cidr 10.1.0.0/24",
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			if _, err := netip.ParsePrefix(request.CIDR); err != nil {
				return fmt.Errorf("--cidr %q is not in CIDR notation, such as 10.1.0.0/24", request.CIDR)
			}
			return nil
		},
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, _ []string) error {
			return a.createNetwork(ctx, client, request, w)
		}),
	}
	cmd.Flags().StringVar(&request.CIDR, "cidr", "", "address range in CIDR notation")
	must(cmd.MarkFlagRequired("cidr"))
	w.bind(cmd)
	return cmd
}

// createNetwork creates a network. The specification does not show whether the portal answers with a job. Otherwise the result
// is shown as a job that has ended, so that scripts find the id in one place.
func (a *app) createNetwork(ctx context.Context, client *cloud.Client, request cloud.CreateNetworkRequest, w waiting) error {
	create := func(ctx context.Context) (cloud.Job, error) {
		made, err := client.CreateNetwork(ctx, request)
		if err != nil || made.ID == "" {
			return made.Job, err
		}
		result, err := json.Marshal(map[string]any{"network": map[string]string{"id": made.ID}})
		return cloud.Job{Status: cloud.JobSucceeded, Result: result}, err
	}
	look := "look at the portal for a network with " + request.CIDR + " and use its id, because the API cannot list networks. Running the " +
		"command again may create a second one"
	return a.operate(ctx, client, operation{
		kind:  "network",
		what:  "create of network " + request.CIDR,
		call:  create,
		lost:  func(context.Context) string { return look },
		makes: cloud.KindNetwork,
	}, w)
}
