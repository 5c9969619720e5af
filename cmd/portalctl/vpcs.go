// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

func (a *app) vpcsCommand() *cobra.Command {
	return group("vpcs", "Virtual private clouds", a.vpcsList(), a.vpcsCreate())
}

func (a *app) vpcsList() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the VPCs of the account",
		Args:  cobra.NoArgs,
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, _ []string) error {
			vpcs, err := client.VPCs(ctx, name)
			if err != nil {
				return err
			}
			return a.printVPCs(vpcs)
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "only those of this name")
	return cmd
}

func (a *app) printVPCs(vpcs []cloud.VPC) error {
	records := make([]any, 0, len(vpcs))
	t := table{header: []string{"ID", "NAME", "CIDR"}}
	for _, v := range vpcs {
		records = append(records, record(v.Raw, v.ID))
		t.rows = append(t.rows, []string{v.ID, v.Name, v.CIDR})
	}
	return a.print(map[string]any{"vpcs": records}, t)
}

func (a *app) vpcsCreate() *cobra.Command {
	var request cloud.CreateVPCRequest
	var w waiting
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a VPC, unless one with that name exists",
		Long: `Create a VPC. If one with that name exists already, nothing is created and that one is shown, so the command can be
repeated.`,
		Example: "  portalctl vpcs create --name production --cidr 10.0.0.0/16",
		Args:    cobra.NoArgs,
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, _ []string) error {
			return a.createVPC(ctx, client, request, w)
		}),
	}
	cmd.Flags().StringVar(&request.Name, "name", "", "name of the VPC")
	cmd.Flags().StringVar(&request.CIDR, "cidr", "", "address range in CIDR notation, which not every portal accepts")
	must(cmd.MarkFlagRequired("name"))
	w.bind(cmd)
	return cmd
}

// createVPC looks the name up before it creates a VPC, as the specification advises for scripts ("Limits", rule 4).
func (a *app) createVPC(ctx context.Context, client *cloud.Client, request cloud.CreateVPCRequest, w waiting) error {
	before, cancel := w.within(ctx)
	defer cancel()
	there, err := client.VPCs(before, request.Name)
	if err != nil {
		return w.unsent(before, err)
	}
	if len(there) > 0 {
		return reuse(a, "VPC", "vpc", request.Name, there, func(v cloud.VPC) map[string]any { return record(v.Raw, v.ID) })
	}
	look := "find out whether it exists now: portalctl vpcs list --name '" + request.Name + "'. If it does not appear within some " +
		"minutes, run the command again"
	return a.operate(ctx, client, operation{
		kind:  "vpc",
		what:  "create of VPC " + request.Name,
		call:  func(ctx context.Context) (cloud.Job, error) { return client.CreateVPC(ctx, request) },
		lost:  func(context.Context) string { return look },
		makes: cloud.KindVPC, name: request.Name,
	}, w)
}
