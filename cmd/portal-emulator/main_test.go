// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// output is what the command writes while it runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start runs the command until the test stops it, and waits until it is ready.
func start(t *testing.T, args ...string) (out *output, stop func() error) {
	t.Helper()
	t.Setenv("KUBEBUILDER_ASSETS", "")
	out = &output{}
	cmd := newCommand()
	cmd.SetOut(out)
	cmd.SetErr(out)
	cmd.SetArgs(append([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--page-listen", "127.0.0.1:0"}, args...))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(out.String(), "Ctrl-C"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not ready: %s", out)
		}
	}
	return out, func() error { cancel(); return <-ended }
}

// printed returns the value after a word of the welcome.
func printed(t *testing.T, out *output, word string) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^\s+` + word + `\s+(\S+)`).FindStringSubmatch(out.String())
	if match == nil {
		t.Fatalf("nothing about %s in:\n%s", word, out)
	}
	return match[1]
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// client is the user's client, which knows the CA from a file.
func client(t *testing.T, out *output, caFile, email, password string) *cloud.Client {
	t.Helper()
	ca, err := os.ReadFile(caFile)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cloud.New(cloud.Config{BaseURL: printed(t, out, "URL"), Email: email, Password: password, CABundle: ca})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestFirstUse: the output is enough to log in, and to use the admin listener.
func TestFirstUse(t *testing.T) {
	ca, requestLog := filepath.Join(t.TempDir(), "ca.crt"), filepath.Join(t.TempDir(), "request-log.txt")
	out, stop := start(t, "--ca-file", ca, "--request-log", requestLog, "--seed", "42")
	password := printed(t, out, "Password")
	c := client(t, out, ca, printed(t, out, "E-mail"), password)
	if _, err := c.KubernetesVersions(t.Context()); err != nil {
		t.Error(err)
	}
	response, err := http.Post(printed(t, out, "Admin")+"/faults", "application/json", strings.NewReader(`{"path":"/vpcs","status":503}`))
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("admin: %v, %v", response, err)
	}
	_ = response.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if _, err := c.VPCs(t.Context(), ""); !cloud.IsUnavailable(err) {
		t.Errorf("with a fault: %v", err)
	}
	if seed := printed(t, out, "Seed"); seed != "42" {
		t.Errorf("seed %s", seed)
	}
	if err := stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	written, err := os.ReadFile(requestLog)
	if err != nil || !strings.Contains(string(written), "GET /vpcs → 503") || strings.Contains(string(written), password) {
		t.Errorf("request log %v:\n%s", err, written)
	}
}

// TestFiles: users, faults and shapes come from YAML; given passwords are not printed.
func TestFiles(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	users := write(t, "users.yaml", "- email: ops@portal.example\n  password: canary\n  role: User\n- email: b@portal.example\n  password: p\n  account: b\n")
	faults := write(t, "faults.yaml", "- path: /vpcs\n  code: RESOURCE_BUSY\n  delay: 1ms\n")
	shapes := write(t, "shapes.yaml", "codeStatus:\n  RESOURCE_BUSY: 422\n")
	out, stop := start(t, "--ca-file", ca, "--users-file", users, "--faults", faults, "--shapes", shapes, "--request-log", "-")
	if _, err := client(t, out, ca, "ops@portal.example", "canary").VPCs(t.Context(), ""); !cloud.IsBusy(err) {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if text := out.String(); strings.Contains(text, "canary") || !strings.Contains(text, "GET /vpcs → 422") {
		t.Errorf("output:\n%s", text)
	}
}

// TestWrongFlags: a wrong flag ends the command with the mistake, and without secrets.
func TestWrongFlags(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", "")
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	for want, args := range map[string][]string{
		// Another program has the address.
		"set --listen to another":       {"--listen", other.Addr().String()},
		"set --admin-listen to another": {"--admin-listen", other.Addr().String()},
		"set --page-listen to another":  {"--page-listen", other.Addr().String()},

		"victim order":         {"--victim-order", "largest"},
		"upgrade style":        {"--upgrade-style", "sudden"},
		"--job-duration":       {"--job-duration", "crate=1s"},
		"--job-duration scale": {"--job-duration", "scale=fast"},
		"no such file":         {"--faults", "/nonexistent"},
		"dealy":                {"--faults", write(t, "f.yaml", "- dealy: 1s\n")},
		"bareList":             {"--shapes", write(t, "s.yaml", "bareList: true\n")},
		"users.yaml":           {"--users-file", write(t, "users.yaml", "- email: a\n  password: [canary]\n")},
		"has no users":         {"--users-file", write(t, "none.yaml", "[]")},
		"is empty":             {"--password-file", write(t, "empty", "\n")},
		"loopback":             {"--admin-listen", "0.0.0.0:0"},
		"page must be on":      {"--page-listen", "0.0.0.0:0"},
		"run make kube":        {"--kubernetes-binaries", "/nonexistent"},
		"unknown command":      {"serve"},

		"base path \"api\"":                       {"--base-path", "api"},
		"--rate-limit 0: must be more than":       {"--rate-limit", "0"},
		"--token-lifetime 0s: must be more":       {"--token-lifetime", "0s"},
		"--victim-order: must not be empty":       {"--victim-order", ""},
		"--kubernetes-versions: must not be":      {"--kubernetes-versions", ""},
		"rate limit 100000000000 per minute":      {"--rate-limit", "100000000000"},
		"no endpoint has method \"\" and path \"": {"--faults", write(t, "nowhere.yaml", "- {path: /vpcz, status: 503}\n")},
		// Wrong options are refused before etcd would start.
		"no user has account \"other\"": {
			"--kubernetes-binaries", "/nonexistent", "--faults", write(t, "other.yaml", "- {account: other, status: 503}\n"),
		},
	} {
		cmd := newCommand()
		out := &output{}
		cmd.SetOut(out)
		cmd.SetErr(out)
		cmd.SetArgs(append([]string{"--listen", "127.0.0.1:0", "--admin-listen", "", "--page-listen", ""}, args...))
		err := cmd.ExecuteContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(out.String(), "canary") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// options returns the emulator's options for a command line.
func options(t *testing.T, args ...string) (emulator.Options, error) {
	t.Helper()
	return parsed(t, args...).options()
}

func parsed(t *testing.T, args ...string) (f *flags) {
	t.Helper()
	f = &flags{}
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.bind(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestPasswordSources: a file, or else the environment; neither is printed.
func TestPasswordSources(t *testing.T) {
	t.Setenv(passwordVariable, "of the environment")
	for want, args := range map[string][]string{"of the environment": nil, "of the file": {"--password-file", write(t, "password", "of the file\n")}} {
		f := parsed(t, args...)
		if o, err := f.options(); err != nil || o.Users[0].Password != want || !f.passwordGiven {
			t.Errorf("%q, want %q, given %t: %v", o.Users[0].Password, want, f.passwordGiven, err)
		}
	}
}

// TestWhatIsSold: the portal has a zone, some service offerings and SSH key pairs, unless a profile or a flag says otherwise.
func TestWhatIsSold(t *testing.T) {
	for title, test := range map[string]struct {
		args                   []string
		zones, offerings, keys []string
	}{
		"by default": {nil, emulator.DefaultZones(), emulator.DefaultServiceOfferings(), emulator.DefaultSSHKeyPairs()},
		"by flags": {
			[]string{"--zones", "east,west", "--service-offerings", "tiny", "--ssh-key-pairs", "a,b"}, []string{"east", "west"}, []string{"tiny"}, []string{"a", "b"},
		},
		"anything": {[]string{"--zones=", "--service-offerings=", "--ssh-key-pairs="}, []string{}, []string{}, []string{}},
		"by a profile": {
			[]string{"--profile", write(t, "p.yaml", "zones: [north]\nsshKeyPairs: [k]\n")}, []string{"north"}, emulator.DefaultServiceOfferings(), []string{"k"},
		},
	} {
		t.Run(title, func(t *testing.T) {
			o, err := options(t, test.args...)
			if err != nil || !slices.Equal(o.Zones, test.zones) || !slices.Equal(o.ServiceOfferings, test.offerings) || !slices.Equal(o.SSHKeyPairs, test.keys) {
				t.Errorf("%q, %q, %q, %v", o.Zones, o.ServiceOfferings, o.SSHKeyPairs, err)
			}
		})
	}
}

// TestProfile: a profile is the base, and the command line overrides it.
func TestProfile(t *testing.T) {
	o, err := options(t, "--profile", "quirky", "--base-path", "/other", "--upgrade-style", "replace", "--job-duration", "create=7s", "--vpc", "mine")
	if err != nil {
		t.Fatal(err)
	}
	if o.BasePath != "/other" || o.UpgradeStyle != emulator.UpgradeReplace || o.Durations.Create != 7*time.Second || o.VPCs[0].Name != "mine" {
		t.Errorf("the command line does not win: %+v", o)
	}
	if o.Shapes.CreatedID != emulator.IDDeep || o.VictimOrder != emulator.VictimsRandom || len(o.Versions) != 4 || !o.ProviderIDs {
		t.Errorf("the profile is not applied: %+v", o)
	}
	if o, err = options(t, "--profile", "small-tier", "--rate-limit", "90"); err != nil || o.RateLimit != (emulator.RateLimit{PerMinute: 90, Burst: 10}) {
		t.Errorf("%+v, %v", o.RateLimit, err)
	}
	faults := write(t, "faults.yaml", "- {path: /login, status: 503}")
	if o, err = options(t, "--profile", "slow", "--faults", faults); err != nil || len(o.Faults) != 2 {
		t.Errorf("%+v, %v", o.Faults, err)
	}
	if _, err = options(t, "--profile", "strange"); err == nil {
		t.Error("an unknown profile is accepted")
	}
}

// TestJobDurations: all comes first in any order on the command line, and zero means none.
func TestJobDurations(t *testing.T) {
	f := flags{user: "a@portal.example", durations: map[string]string{"create": "1m", "all": "2s", "vpc": "0"}}
	opts, err := f.options()
	if d := opts.Durations; err != nil || d.Create != time.Minute || d.Scale != 2*time.Second || d.VPC >= 0 || d.Pending != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}
