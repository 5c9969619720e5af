// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// completionTimeout is how long a shell waits for the portal after the Tab key.
const completionTimeout = 5 * time.Second

// offer returns values that the portal knows, each with a description after a tab.
type offer func(context.Context, *cloud.Client) ([]cobra.Completion, error)

// completeArgument offers the portal's values for the first argument.
func (a *app) completeArgument(from offer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completes(from)(cmd, args, typed)
	}
}

// completes offers the portal's values. It never asks for a password. With a seed it offers nothing, because each login would use up the
// one-time code that the command itself needs.
func (a *app) completes(from offer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp
		config, err := a.config()
		config.Password, config.Wait = a.getenv(passwordVariable), false
		if err != nil || config.TOTPSeed != "" {
			return nil, directive
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		client, err := cloud.New(config)
		if err != nil {
			return nil, directive
		}
		defer client.Close()
		values, err := from(ctx, client)
		if err != nil {
			cobra.CompDebugln(err.Error(), false)
		}
		return values, directive
	}
}

// completeFlag offers the portal's values for a flag.
func (a *app) completeFlag(cmd *cobra.Command, name string, from offer) {
	must(cmd.RegisterFlagCompletionFunc(name, a.completes(from)))
}

// offerAll offers a value of each item of a list, with a description.
func offerAll[T any](list func(*cloud.Client, context.Context) ([]T, error), show func(T) (value, description string)) offer {
	return func(ctx context.Context, client *cloud.Client) (values []cobra.Completion, err error) {
		items, err := list(client, ctx)
		for _, item := range items {
			value, description := show(item)
			values = append(values, cobra.CompletionWithDesc(cell(value), cell(description)))
		}
		return values, err
	}
}

var (
	offerVersions = offerAll((*cloud.Client).KubernetesVersions, func(v cloud.KubernetesVersion) (string, string) { return v.SemanticVersion, v.State })

	offerVersionIDs = offerAll((*cloud.Client).KubernetesVersions, func(v cloud.KubernetesVersion) (string, string) { return v.ID, v.SemanticVersion })

	offerInstances = offerAll((*cloud.Client).Instances, func(i cloud.Instance) (string, string) { return i.ID, i.Name })

	offerVPCs = offerAll(func(client *cloud.Client, ctx context.Context) ([]cloud.VPC, error) { return client.VPCs(ctx, "") },
		func(v cloud.VPC) (string, string) { return v.ID, v.Name })
)

// offerNamed offers what VPCs and instances have in a field, because the portal has no list of zones, networks or clusters. Not every portal
// has the field.
func offerNamed(field string) offer {
	return func(ctx context.Context, client *cloud.Client) ([]cobra.Completion, error) {
		vpcs, err := client.VPCs(ctx, "")
		if err != nil {
			return nil, err
		}
		instances, err := client.Instances(ctx)
		values := map[string]bool{}
		for _, v := range vpcs {
			noteField(v.Raw, field, values)
		}
		for _, i := range instances {
			noteField(i.Raw, field, values)
		}
		return slices.Sorted(maps.Keys(values)), err
	}
}

// The fields that name other resources in the records of VPCs and instances. The specification shows none of them.
const (
	fieldZone    = "zoneId"
	fieldNetwork = "networkId"
	fieldCluster = "kubernetesClusterId"
)

// noteField notes the text that a record has in a field.
func noteField(raw json.RawMessage, field string, values map[string]bool) {
	var fields map[string]any
	if json.Unmarshal(raw, &fields) != nil {
		return
	}
	if text, ok := fields[field].(string); ok && text != "" {
		values[cell(text)] = true
	}
}
