// SPDX-License-Identifier: Apache-2.0

// Command portal-sandbox runs the portal provider with everything around it on this machine: a management cluster,
// Cluster API, the provider's manager and an emulated portal with real workload clusters. It stays up until Ctrl-C.
// Its subcommand demo takes a cluster through its life in such a sandbox, and ends.
//
// Run it through make sandbox and make demo, which build what it needs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/profile"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox/demo"
	"github.com/capportal/cluster-api-provider-portal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		stop() // A second signal ends this process at once, and its children with it.
	}()
	log.SetLogger(logr.Discard()) // Important output is printed, and the servers log to files.
	klog.SetLogger(logr.Discard())
	if err := command().ExecuteContext(ctx); err != nil {
		stop()
		os.Exit(1)
	}
}

// requestLogSize is how many entries of the portal's request log a sandbox keeps, which may stay up for days.
const requestLogSize = 50_000

// flags are the values of the command line.
type flags struct {
	sandbox     sandbox.Options
	jobDuration time.Duration
	victimOrder string
	upgrade     string
	profile     string
}

func command() *cobra.Command {
	f := &flags{}
	root := &cobra.Command{
		Use:          "portal-sandbox",
		Short:        "Run the portal provider and everything around it on this machine until Ctrl-C",
		Version:      version.Get().String(),
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         func(cmd *cobra.Command, _ []string) error { return f.stayUp(cmd) },
	}
	var record string
	demonstration := &cobra.Command{
		Use:   "demo",
		Short: "Take a cluster through its life in a sandbox: create, scale, upgrade, roll out, delete a Machine, delete",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if record != "" && f.sandbox.PageAddress == "" {
				return errors.New("--record needs the page: set --page-listen")
			}
			options, err := f.options()
			if err != nil {
				return err
			}
			options.Out = cmd.OutOrStdout()
			return demo.Run(cmd.Context(), demo.Options{Options: options, Record: record})
		},
	}
	demonstration.Flags().StringVar(&record, "record", "", "write what the page shows to this `file`, for portal-player")
	root.AddCommand(demonstration)
	set := root.PersistentFlags()
	set.StringVar(&f.sandbox.Dir, "dir", "", "`directory` for kubeconfigs and logs, which is kept (default: a temporary one, which is removed)")
	set.StringVar(&f.sandbox.PortalAddress, "portal-listen", "", "address of the portal, TLS only (default a free port of 127.0.0.1)")
	set.StringVar(&f.sandbox.PageAddress, "page-listen", "127.0.0.1:0", "loopback address of the page for a browser, plain HTTP. Port 0 takes a free port, empty turns it off")
	set.DurationVar(&f.jobDuration, "job-duration", 0, "minimum duration of the portal's create, scale, upgrade and delete jobs (default 5 to 10 s)")
	set.StringVar(&f.profile, "profile", "", "description of the portal: a YAML `file`, or one of "+strings.Join(profile.Names(), ", ")+"; other flags win over it")
	set.StringVar(&f.victimOrder, "victim-order", "", "workers that a scale-down removes first: newest, oldest or random (default the profile's, or newest). The provider expects newest: another order can cost Pods")
	set.Int64Var(&f.sandbox.Portal.Seed, "seed", 0, "seed of the portal's random choices, such as which worker to remove (default: a new one, printed)")
	set.StringVar(&f.upgrade, "upgrade-style", "", "what an upgrade does to each node: in-place, recreate, replace or surge (default the profile's, or in-place)")
	set.BoolVar(&f.sandbox.Portal.ProviderIDs, "provider-ids", false, "give nodes a providerID")
	set.StringSliceVar(&f.sandbox.ManagerArgs, "manager-arg", nil, "additional flag of the provider's manager, such as -v=4 (repeatable)")
	return root
}

func (f *flags) options() (sandbox.Options, error) {
	options := f.sandbox
	if f.profile != "" {
		p, err := profile.Load(f.profile)
		if err != nil {
			return options, err
		}
		p.Apply(&options.Portal)
		options.Portal.ProviderIDs = options.Portal.ProviderIDs || f.sandbox.Portal.ProviderIDs
	}
	if len(options.Portal.Zones) == 0 {
		options.Portal.Zones = emulator.DefaultZones()
	}
	if len(options.Portal.ServiceOfferings) == 0 {
		options.Portal.ServiceOfferings = emulator.DefaultServiceOfferings()
	}
	if len(options.Portal.SSHKeyPairs) == 0 {
		options.Portal.SSHKeyPairs = emulator.DefaultSSHKeyPairs()
	}
	options.Portal.RequestLogSize = requestLogSize
	if f.victimOrder != "" {
		options.Portal.VictimOrder = emulator.VictimOrder(f.victimOrder)
	}
	if f.upgrade != "" {
		options.Portal.UpgradeStyle = emulator.UpgradeStyle(f.upgrade)
	}
	if d := f.jobDuration; d != 0 {
		options.Portal.Durations = emulator.Durations{Create: d, Scale: d, Upgrade: d, Delete: d}
	}
	return options, nil
}

func (f *flags) stayUp(cmd *cobra.Command) error {
	options, err := f.options()
	if err != nil {
		return err
	}
	options.Out = cmd.OutOrStdout()
	s, err := sandbox.Start(cmd.Context(), options)
	if err != nil {
		return err
	}
	if err := s.Explain(cmd.OutOrStdout()); err != nil {
		return err
	}
	ended := s.Wait(cmd.Context())
	_, _ = fmt.Fprintln(cmd.OutOrStdout(), "\nStopping")
	if err := s.Close(); err != nil {
		return err
	}
	return ended
}
