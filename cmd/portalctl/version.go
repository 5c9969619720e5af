// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/version"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Args:  cobra.NoArgs,
		RunE: a.runs(func(context.Context, []string) error {
			value := version.Get()
			return a.print(value, table{rows: [][]string{
				{"Version", value.Version}, {"Commit", value.Commit}, {"Go", value.Go}, {"Platform", value.Platform},
			}})
		}),
	}
}
