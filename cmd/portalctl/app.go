// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/version"
)

// environment holds the streams, the terminal and the environment variables of a command.
type environment struct {
	in        io.Reader
	out, err  io.Writer // out gets results, err everything else
	getenv    func(string) string
	ask       func(ctx context.Context, prompt string, secret bool) (string, error) // nil without a terminal
	live      bool                                                                  // progress may be redrawn in place
	transport http.RoundTripper                                                     // nil means HTTPS
}

// app is one run of the program.
type app struct {
	environment
	connection connection
	output     string
	verbose    bool
	noWait     bool // the command has --no-wait, and it is set
	reached    bool // a command's body has started. An earlier failure is a mistake on the command line
}

const rootLong = `portalctl looks things up at the cloud portal, changes them, and tests credentials.

Portal and user:
  --url, --email, --ca-file   or $PORTAL_URL, $PORTAL_EMAIL, $PORTAL_CA_FILE
  password                    $PORTAL_PASSWORD, else --password-stdin, else a prompt
  one-time codes (MFA)        made from the seed in $PORTAL_TOTP_SEED, else a prompt
Secrets are never taken from flags, which every process of the machine can read. Nothing is stored: each command logs
in, with one request of the account's rate limit (two more with MFA). A one-time code can be used once: if the present
one was used, a command that makes codes from the seed waits for the next one, up to half a minute.

Results go to standard output, as a table, JSON or YAML (-o). Progress, questions and errors go to standard error.
Fields have the names that the portal's REST API gives them.

Exit codes:
`

// execute runs one command line and returns its exit code.
func execute(ctx context.Context, s environment, args []string) exitCode {
	a := &app{environment: s}
	root := a.root()
	checkHelp(root)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if !a.reached {
		err = &failure{code: exitUsage, err: err, advice: fmt.Sprintf("see '%s --help'", cmd.CommandPath())}
	}
	return a.report(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "portalctl",
		Short:         "Look things up at the cloud portal, change them, and test credentials",
		Long:          rootLong + exitCodeHelp(),
		Version:       version.Get().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	flags := root.PersistentFlags()
	a.connection.bind(flags)
	flags.StringVarP(&a.output, "output", "o", formatTable, "format of results: table, json or yaml")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "print every request to the portal")
	must(root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)))
	root.AddCommand(
		a.loginCommand(), a.doctorCommand(), a.identityCommand(), a.passwordCommand(), a.mfaCommand(),
		a.versionsCommand(), a.vpcsCommand(), a.networksCommand(), a.clustersCommand(),
		a.jobsCommand(), a.instancesCommand(), a.volumesCommand(), a.pageCommand(), a.versionCommand(),
	)
	return root
}

// runs returns the body of a command. When it starts, the command line is known to be well formed.
func (a *app) runs(body func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := checkFormat(a.output); err != nil {
			return err
		}
		a.reached = true
		a.noWait, _ = cmd.Flags().GetBool("no-wait") // most commands do not have the flag
		return body(cmd.Context(), args)
	}
}

// checkHelp makes 'help' refuse the names of commands that do not exist.
func checkHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "help" {
			continue
		}
		cmd.Args = func(_ *cobra.Command, args []string) error {
			if _, unknown, err := root.Find(args); err != nil || len(unknown) > 0 {
				return fmt.Errorf("%q is no command", strings.Join(args, " "))
			}
			return nil
		}
	}
}

// group is a command that only holds others. Without its own body cobra would accept any word after it.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return fmt.Errorf("%s needs a command", cmd.CommandPath())
		},
	}
	cmd.AddCommand(commands...)
	return cmd
}

// say writes a line for people.
func (a *app) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.err, format+"\n", args...) // who closed standard error does not want to know
}

// must panics on errors that only a mistake in this program can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
