// SPDX-License-Identifier: Apache-2.0

// Command portal-conformance checks whether a portal follows the specification of its REST API, so that the provider works with it. See
// package conformance for what it checks.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capportal/cluster-api-provider-portal/conformance"
	"github.com/capportal/cluster-api-provider-portal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, func() {
		stop()
		fmt.Fprintln(os.Stderr, "Interrupted: the present check ends, then the clusters of this run are deleted. Interrupt again to leave them.")
	})
	os.Exit(exitCode(newCommand(conformance.Defaults()).ExecuteContext(ctx)))
}

// errFailed says that the portal was checked, and that checks failed.
var errFailed = errors.New("the portal does not follow the specification")

// exitCode returns the exit code, which the help text explains.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFailed):
		return 1
	}
	return 2
}

// flags are the command line: the options of the checks, and files.
type flags struct {
	conformance.Options
	caFile, markdown, json string
}

func newCommand(defaults conformance.Options) *cobra.Command {
	f := flags{Options: defaults}
	cmd := &cobra.Command{
		Use:   "portal-conformance",
		Short: "Check whether a portal follows the specification of its REST API",
		Long: `portal-conformance checks, statement by statement, whether a portal follows the specification of its REST API.
It prints the result of each check, and says whether the provider will work with the portal.

Without --create nothing is created or changed. With it, checks make VPCs and networks, which stay because no
endpoint deletes them, and one cluster at a time. The run deletes its clusters, also after failures and Ctrl-C.
A check is skipped if its flag or its user is missing.

Secrets are never taken from flags, which every process of the machine can read:
  $PORTAL_PASSWORD         password of the portal user
  $PORTAL_TOTP_SEED        TOTP seed of a user with MFA
  $PORTAL_OTHER_PASSWORD   password of the user of --other-email

Exit codes:
  0  no check failed
  1  a check failed
  2  nothing was checked, the run was interrupted, or a report could not be written`,
		Example: `  export PORTAL_URL=https://portal.example/api PORTAL_EMAIL=robot@portal.example PORTAL_PASSWORD=…
  portal-conformance --report-markdown report.md
  portal-conformance --checks '^(login|authentication)/'
  portal-conformance --create --zone … --service-offering … --ssh-key-pair … --vpc …`,
		Version:      version.Get().String(),
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd)
		},
	}
	f.bind(cmd.Flags())
	return cmd
}

func (f *flags) bind(set *pflag.FlagSet) {
	set.StringVar(&f.URL, "url", "", "base `URL` of the portal's API (default $PORTAL_URL)")
	set.StringVar(&f.Email, "email", "", "the portal user's `e-mail` (default $PORTAL_EMAIL)")
	set.StringVar(&f.caFile, "ca-file", "", "PEM `file` of the only authorities to trust (default $PORTAL_CA_FILE, else the system's)")
	set.StringVar(&f.OtherEmail, "other-email", "", "`e-mail` of a user of another account, whose ids must not be found")
	set.TextVar(f.Checks, "checks", f.Checks, "run only the checks whose names match this regular `expression`")
	set.BoolVar(&f.Create, "create", false, "let checks make VPCs, networks and clusters; clusters are deleted again")
	set.StringVar(&f.Zone, "zone", "", "`id` of the zone of clusters that checks make")
	set.StringVar(&f.ServiceOffering, "service-offering", "", "`id` of the service offering of clusters that checks make")
	set.StringVar(&f.SSHKeyPair, "ssh-key-pair", "", "`name` of the SSH key pair of clusters that checks make")
	set.StringVar(&f.VPC, "vpc", "", "`name` of a VPC, for the name filter and for clusters that checks make")
	set.StringVar(&f.CIDR, "cidr", f.CIDR, "`CIDR` of networks that checks make")
	set.BoolVar(&f.Exhaust, "exhaust", false, "let checks use up the account's rate limit for some seconds")
	set.IntVar(&f.Tier.PerMinute, "rate-limit", f.Tier.PerMinute, "requests per minute of the account's tier")
	set.IntVar(&f.Tier.Burst, "rate-burst", f.Tier.Burst, "requests at once of the account's tier")
	set.IntVar(&f.Tier.Workers, "max-workers", f.Tier.Workers, "workers that a cluster of the account may have")
	set.StringVar(&f.markdown, "report-markdown", "", "write what was found to this `file`, as Markdown")
	set.StringVar(&f.json, "report-json", "", "write what was found to this `file`, as JSON")
}

// run checks the portal and writes the reports.
func (f *flags) run(cmd *cobra.Command) (err error) {
	f.URL, f.Email = cmp.Or(f.URL, os.Getenv("PORTAL_URL")), cmp.Or(f.Email, os.Getenv("PORTAL_EMAIL"))
	if file := cmp.Or(f.caFile, os.Getenv("PORTAL_CA_FILE")); file != "" {
		if f.CA, err = os.ReadFile(file); err != nil {
			return err
		}
	}
	report, err := conformance.Run(cmd.Context(), f.Options, cmd.OutOrStdout())
	if err != nil {
		return err
	}
	content, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	for file, content := range map[string][]byte{f.markdown: []byte(report.Markdown()), f.json: content} {
		if file != "" {
			err = errors.Join(err, os.WriteFile(file, content, 0o644)) //nolint:gosec // A report has no secrets.
		}
	}
	switch {
	case err != nil:
		return err
	case len(report.Failed) > 0:
		return errFailed
	case cmd.Context().Err() != nil:
		return errors.New("interrupted: not all checks ran")
	case len(report.Passed) == 0:
		return errors.New("no check has passed")
	}
	return nil
}
