// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

func (a *app) instancesCommand() *cobra.Command {
	return group("instances", "Virtual machines, the nodes of clusters among them", a.instancesList(), a.instancesGet())
}

func (a *app) instancesList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List all instances of the account",
		Args:  cobra.NoArgs,
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, _ []string) error {
			instances, err := client.Instances(ctx)
			if err != nil {
				return err
			}
			records := make([]any, 0, len(instances))
			for _, i := range instances {
				records = append(records, record(i.Raw, i.ID))
			}
			return a.print(map[string]any{"instances": records}, instanceTable(instances...))
		}),
	}
}

func (a *app) instancesGet() *cobra.Command {
	return &cobra.Command{
		Use:               "get INSTANCE_ID",
		Short:             "Show one instance",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeArgument(offerInstances),
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, args []string) error {
			instance, err := client.Instance(ctx, args[0])
			if err != nil {
				return err
			}
			return a.print(record(instance.Raw, instance.ID), instanceTable(instance))
		}),
	}
}

func instanceTable(instances ...cloud.Instance) table {
	t := table{header: []string{"ID", "NAME", "STATE", "CLUSTER"}}
	for _, i := range instances {
		t.rows = append(t.rows, []string{i.ID, i.Name, i.State, clusterOf(i.Name)})
	}
	return t
}

// nodeName matches the usual names of a cluster's nodes: the cluster's name, the role and a suffix.
var nodeName = regexp.MustCompile(`^(.+)-(?:c|control|control-plane|w|worker|node)-[0-9a-z]+$`)

// clusterOf returns the name of the cluster that an instance's name shows, or "". The specification has no field for it.
func clusterOf(instance string) string {
	if parts := nodeName.FindStringSubmatch(instance); parts != nil {
		return parts[1]
	}
	return ""
}
