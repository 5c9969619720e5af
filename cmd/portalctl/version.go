// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// buildVersion is what Go knows of this build: the module's version, or a revision.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Args:  cobra.NoArgs,
		RunE: a.runs(func(context.Context, []string) error {
			value := struct {
				Version  string `json:"version"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{buildVersion(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return a.print(value, table{rows: [][]string{
				{"Version", value.Version}, {"Go", value.Go}, {"Platform", value.Platform},
			}})
		}),
	}
}
