// SPDX-License-Identifier: Apache-2.0

// Command portal-emulator runs the cloud portal's REST API on this machine: for demonstrations, for development without a
// portal account, and for tests of clients. See package cloud/emulator for what it models.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/workload"
	"github.com/capportal/cluster-api-provider-portal/version"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C does not wait
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "portal-emulator",
		Short: "Run the cloud portal's REST API on this machine",
		Long: `portal-emulator serves the cloud portal's REST API over TLS: login with JWTs and MFA, VPCs and networks, managed
Kubernetes clusters, jobs, instances, volumes, the documented errors and the rate limit. It keeps everything in
memory. With --kubernetes-binaries its clusters are real API servers with simulated nodes. Otherwise they are
records only.

Faults are data: --faults reads them from a file, and the admin listener changes them while the emulator runs.
The page shows clusters, jobs and requests in a browser. Without the admin listener it is read-only.`,
		Example: `  portal-emulator --ca-file portal-ca.crt
  portal-emulator --kubernetes-binaries bin --job-duration create=30s --victim-order random
  curl --cacert portal-ca.crt https://127.0.0.1:8443/login -H 'Content-Type: application/json' \
    -d '{"email":"admin@portal.example","password":"…"}'
  curl -X POST http://127.0.0.1:8444/faults -d '{"path":"/jobs/*","status":503,"count":3}'
  curl 'http://127.0.0.1:8444/request-log?format=text'`,
		Version:       version.Get().String(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: false,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), &f, cmd.OutOrStdout())
		},
	}
	f.bind(cmd.Flags())
	return cmd
}

// run serves until the context ends.
func run(ctx context.Context, f *flags, out io.Writer) (err error) {
	opts, err := f.options()
	if err != nil {
		return err
	}
	if err := opts.Check(); err != nil { // before servers start
		return err
	}
	if f.requestLog != "" {
		log, openErr := openRequestLog(f.requestLog, out)
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, log.Close()) }()
		opts.RequestLogTo = log
	}
	if f.binaries != "" {
		// From here on, the portal's clusters are real ones.
		clusters, startErr := workload.New(ctx, workload.Options{BinDir: f.binaries, Bind: f.workloadBind, Host: f.workloadHost})
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, clusters.Close()) }()
		opts.Workloads = clusters
		if _, err := fmt.Fprintf(out, "Logs of real clusters are in %s as long as they exist.\n", clusters.Dir()); err != nil {
			return err
		}
	}
	portal, err := emulator.New(opts)
	if err != nil {
		return err
	}
	defer portal.Close()
	picture, err := listen(ctx, portal, f, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, picture.Close()) }()
	<-ctx.Done()
	_, err = fmt.Fprintln(out, "Stopping: jobs under way end where they are, workload clusters are removed.")
	return err
}

// listen starts the listeners and prints how to use them. The caller closes the page, which is nil if there is none.
func listen(ctx context.Context, portal *emulator.Portal, f *flags, out io.Writer) (picture *page.Server, err error) {
	if err := portal.Listen(f.listen); err != nil {
		return nil, notListening("listen", err)
	}
	if f.caFile != "" {
		if err := os.WriteFile(f.caFile, portal.CAPEM(), 0o644); err != nil { //nolint:gosec // A certificate is public.
			return nil, err
		}
	}
	admin, shown := "off (--admin-listen)", "off (--page-listen)"
	if f.adminListen != "" {
		url, err := portal.ListenAdmin(f.adminListen)
		if err != nil {
			return nil, notListening("admin-listen", err)
		}
		admin = url + "  (/ca /faults /victim-order /request-log /clusters /clusters/{id}/repair /instances /jobs /volumes /mailbox/{email}; loopback only)"
	}
	if f.pageListen != "" {
		picture, err = page.Listen(ctx, f.pageListen, page.Options{Portal: portal, ReadOnly: f.adminListen == ""})
		if err != nil {
			return nil, notListening("page-listen", err)
		}
		shown = picture.URL + "  (for a browser; loopback only)"
	}
	if _, err := io.WriteString(out, f.welcome(portal, admin, shown)); err != nil {
		return nil, errors.Join(err, picture.Close())
	}
	return picture, nil
}

// notListening adds the flag of the address to the error, and what to do if another program uses the address.
func notListening(flag string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("--%s: %w. Stop the program that uses this address, or set --%[1]s to another one (port 0 takes a free one)", flag, err)
	}
	return fmt.Errorf("--%s: %w", flag, err)
}

// welcome returns the text for the user. It contains the password only if the emulator has generated it.
func (f *flags) welcome(portal *emulator.Portal, admin, shown string) string {
	email, password := portal.Credentials()
	if f.passwordGiven {
		password = "(as given)"
	}
	ca := f.caFile
	if ca == "" {
		ca = "(not written: --ca-file)"
	}
	clusters := "records without API servers (--kubernetes-binaries runs real ones)"
	if f.binaries != "" {
		clusters = "real API servers with simulated nodes"
	}
	versions := make([]string, 0, len(portal.Versions()))
	for _, v := range portal.Versions() {
		versions = append(versions, v.SemanticVersion)
	}
	return fmt.Sprintf(`The portal emulator is ready.
  URL        %s
  CA file    %s
  E-mail     %s
  Password   %s
  Admin      %s
  Page       %s
  Clusters   %s
  Versions   %s
  Seed       %d
Ctrl-C stops it; nothing is kept.
`, portal.URL(), ca, email, password, admin, shown, clusters, strings.Join(versions, " "), portal.Seed())
}

// openRequestLog opens the file for the request log. The name - means standard output.
func openRequestLog(name string, out io.Writer) (io.WriteCloser, error) {
	if name == "-" {
		return unclosed{out}, nil
	}
	return os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
}

type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
