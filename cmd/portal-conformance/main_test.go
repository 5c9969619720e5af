// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/conformance"
)

// portal starts an emulator that listens as a real portal does, and sets the environment to its user. Its jobs are fast, and its rate limit is
// high.
func portal(t *testing.T, o emulator.Options) *emulator.Portal {
	t.Helper()
	soon := 20 * time.Millisecond
	o.Durations = emulator.Durations{Pending: soon, Create: soon, Scale: 15 * soon, Upgrade: soon, Delete: soon, VPC: soon}
	o.RateLimit, o.BasePath = emulator.RateLimit{PerMinute: 60000, Burst: 5000}, "/api"
	p, err := emulator.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if err := p.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, p.CAPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	email, password := p.Credentials()
	for name, value := range map[string]string{"URL": p.URL(), "EMAIL": email, "PASSWORD": password, "CA_FILE": ca} {
		t.Setenv("PORTAL_"+name, value)
	}
	return p
}

// created returns the routes that were asked to create or change something.
func created(p *emulator.Portal) (routes []string) {
	for _, e := range p.RequestLog() {
		asked := slices.Contains([]string{"/vpcs", "/networks", "/kubernetes-clusters"}, e.Route)
		if e.IsRequest() && e.Method != "GET" && (asked || e.Status < 300 && e.Route != "/login") {
			routes = append(routes, e.Route)
		}
	}
	return routes
}

// run runs the command, shows each line of its output as it is written, and returns its exit code and output.
func run(ctx context.Context, seen func(line string), args ...string) (code int, out string) {
	w := &watched{seen: seen}
	o := conformance.Defaults()
	o.Poll = 10 * time.Millisecond
	cmd := newCommand(o)
	cmd.SetOut(w)
	cmd.SetErr(w)
	cmd.SetArgs(args)
	return exitCode(cmd.ExecuteContext(ctx)), w.String()
}

type watched struct {
	bytes.Buffer
	seen func(line string)
}

func (w *watched) Write(line []byte) (int, error) {
	if w.seen != nil {
		w.seen(string(line))
	}
	return w.Buffer.Write(line)
}

// creating are the flags with which checks create clusters.
var creating = []string{"--create", "--zone", "z", "--service-offering", "o", "--ssh-key-pair", "k", "--vpc", "default"}

// TestRun checks what a user sees of a portal that follows the specification, and of one that does not: the output, the exit code and both
// reports. Without --create nothing is even asked to be created. With it, no cluster is left.
func TestRun(t *testing.T) {
	old := emulator.Options{Versions: []emulator.Version{{SemanticVersion: "v1.26.9"}}}
	for name, test := range map[string]struct {
		options emulator.Options
		args    []string
		code    int
		failed  int
		says    []string
	}{
		"looking": {says: []string{
			"passed   service/plain HTTP is rejected\n", "skipped  create/name is required\n         makes something: needs --create\n",
			"skipped  authentication/a token lives 8 hours\n         takes 7h59m0s\n", " 0 failed, ", "the provider works",
		}},
		"creating": {args: creating, says: []string{
			"passed   endpoints/POST kubernetes-clusters\n", "passed   endpoints/DELETE kubernetes-clusters\n", "\nLeft behind: vpc conformance-",
		}},
		"old versions": {options: old, code: 1, failed: 1, says: []string{
			"failed   versions/each is 1.27 or later\n         version ", " 1 failed, ", "Error: the portal does not follow",
		}},
		"some checks": {args: []string{"--checks", "^login/token"}, says: []string{"passed   login/token is a JWT\n\nChecks: 1 passed, 0 failed, 0 skipped."}},
	} {
		t.Run(name, func(t *testing.T) {
			p := portal(t, test.options)
			markdown, file := filepath.Join(t.TempDir(), "r.md"), filepath.Join(t.TempDir(), "r.json")
			code, out := run(t.Context(), nil, append(test.args, "--report-markdown", markdown, "--report-json", file)...)
			if code != test.code {
				t.Errorf("exit code %d", code)
			}
			for _, says := range test.says {
				if !strings.Contains(out, says) {
					t.Errorf("no %q in:\n%s", says, out)
				}
			}
			if asked := created(p); (len(asked) > 0) != slices.Contains(test.args, "--create") || len(p.Clusters()) > 0 {
				t.Errorf("%d clusters are left. These were asked to create something: %v", len(p.Clusters()), asked)
			}
			var report conformance.Report
			if content, err := os.ReadFile(file); err != nil || json.Unmarshal(content, &report) != nil || len(report.Failed) != test.failed {
				t.Errorf("%s: %+v, %v", file, report, err)
			}
			if content, err := os.ReadFile(markdown); err != nil || string(content) != report.Markdown() {
				t.Errorf("%s differs from %s: %v", markdown, file, err)
			}
		})
	}
}

// TestInterrupted checks that an interrupted run skips the remaining checks and deletes its cluster.
func TestInterrupted(t *testing.T) {
	p := portal(t, emulator.Options{})
	ctx, interrupt := context.WithCancel(t.Context())
	code, out := run(ctx, func(line string) {
		if line == "passed   endpoints/POST kubernetes-clusters\n" {
			interrupt()
		}
	}, creating...)
	if code != 2 || !strings.Contains(out, "skipped  endpoints/DELETE kubernetes-clusters\n         interrupted\n") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if !slices.Contains(created(p), "/kubernetes-clusters") || len(p.Clusters()) > 0 {
		t.Errorf("%d clusters are left", len(p.Clusters()))
	}
}

// TestWithoutResult checks that a run is no success if it could not begin, did not end, or checked nothing, and that the user reads why.
func TestWithoutResult(t *testing.T) {
	portal(t, emulator.Options{})
	for _, test := range []struct{ variable, value, args, says string }{
		{args: "--url http://portal.example", says: "--url must begin with https://"},
		{variable: "PORTAL_EMAIL", says: "--email"},
		{variable: "PORTAL_PASSWORD", says: "PORTAL_PASSWORD"},
		{variable: "PORTAL_PASSWORD", value: "wrong", says: "nothing was checked: POST /login: status 401"},
		{args: "--ca-file none.pem", says: "none.pem"},
		{args: "--ca-file main.go", says: "no PEM certificate"},
		{args: "--checks (", says: "--checks"},
		{args: "--checks ^login/ --report-json none/r.json", says: "none/r.json"},
		{args: "--checks ^nothing", says: "no check has passed"},
		{args: "login", says: "unknown command"},
	} {
		t.Run(test.says, func(t *testing.T) {
			if test.variable != "" {
				t.Setenv(test.variable, test.value)
			}
			if code, out := run(t.Context(), nil, strings.Fields(test.args)...); code != 2 || !strings.Contains(out, test.says) {
				t.Errorf("exit code %d:\n%s", code, out)
			}
		})
	}
}

// TestNoSecretIsAFlag checks that no flag takes a secret, which the list of processes would show.
func TestNoSecretIsAFlag(t *testing.T) {
	newCommand(conformance.Defaults()).Flags().VisitAll(func(f *pflag.Flag) {
		if strings.Contains(f.Name, "password") || strings.Contains(f.Name, "seed") || strings.Contains(f.Name, "token") {
			t.Errorf("--%s would show a secret", f.Name)
		}
	})
}
