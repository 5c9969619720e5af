// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// Secrets that must never appear on standard output or error.
const (
	canaryPassword = "canary-password-Zq7"
	canarySeed     = "KRSXG5CTMVRXEZLUKN2XAZLSKNSWG4TF"
)

// desk is a portal, an environment, and a way to run the program.
type desk struct {
	t        *testing.T
	portal   *emulator.Portal
	env      map[string]string
	stdin    string
	answers  []string // to questions, in order. nil means that no terminal exists
	asked    []string
	live     bool
	may      bool // show secrets
	onOutput func(string)
}

// result is the output and the exit code of a command.
type result struct {
	t        *testing.T
	args     []string
	out, err string
	code     exitCode
	took     time.Duration
}

// at sets up a desk in a bubble whose time passes only while everyone waits.
func at(t *testing.T, opts emulator.Options, do func(*testing.T, *desk)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { do(t, newDesk(t, opts)) })
}

func newDesk(t *testing.T, opts emulator.Options) *desk {
	t.Helper()
	if opts.Users == nil {
		opts.Users = []emulator.User{{Email: "ops@portal.example", Password: canaryPassword}}
	}
	portal, err := emulator.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(portal.Close)
	return &desk{t: t, portal: portal, env: map[string]string{
		urlVariable: portal.URL(), emailVariable: opts.Users[0].Email, passwordVariable: canaryPassword,
	}}
}

// with returns the desk with another environment. An empty value unsets a variable.
func (d *desk) with(pairs ...string) *desk {
	other := *d
	other.env = maps.Clone(d.env)
	for i := 0; i < len(pairs); i += 2 {
		other.env[pairs[i]] = pairs[i+1]
	}
	return &other
}

func (d *desk) run(args ...string) *result {
	d.t.Helper()
	return d.runWithin(d.t.Context(), args...)
}

func (d *desk) runWithin(ctx context.Context, args ...string) *result {
	d.t.Helper()
	out, errOut := &screen{}, &screen{seen: d.onOutput}
	s := environment{
		in: strings.NewReader(d.stdin), out: out, err: errOut, live: d.live,
		getenv:    func(name string) string { return d.env[name] },
		transport: d.portal.Transport(),
	}
	if d.answers != nil {
		s.ask = d.answer
	}
	began := time.Now()
	code := execute(ctx, s, args)
	r := &result{t: d.t, args: args, code: code, took: time.Since(began), out: out.String(), err: errOut.String()}
	if !d.may {
		r.keepsSecrets()
	}
	return r
}

// interrupt runs a command that the user interrupts after a time.
func (d *desk) interrupt(after time.Duration, args ...string) *result {
	d.t.Helper()
	ctx, interrupt := context.WithCancel(d.t.Context())
	time.AfterFunc(after, interrupt)
	return d.runWithin(ctx, args...)
}

func (d *desk) answer(_ context.Context, prompt string, _ bool) (string, error) {
	d.asked = append(d.asked, prompt)
	if len(d.answers) == 0 {
		return "", errors.New("the person has left")
	}
	answer := d.answers[0]
	d.answers = d.answers[1:]
	return answer, nil
}

// screen takes output from several goroutines.
type screen struct {
	mu   sync.Mutex
	b    bytes.Buffer
	seen func(string)
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != nil {
		s.seen(string(p))
	}
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// keepsSecrets: passwords, seeds and tokens (JWTs start with eyJ) are on no stream.
func (r *result) keepsSecrets() {
	r.t.Helper()
	for _, secret := range []string{"canary", canarySeed, "eyJ"} {
		if strings.Contains(r.out+r.err, secret) {
			r.t.Errorf("portalctl %q shows a secret (%s):\n%s%s", r.args, secret, r.out, r.err)
		}
	}
}

// exits checks the exit code.
func (r *result) exits(code exitCode) *result {
	r.t.Helper()
	if r.code != code {
		r.t.Fatalf("portalctl %q: exit code %d, want %d\n%s%s", r.args, r.code, code, r.out, r.err)
	}
	return r
}

// says checks standard error for the words.
func (r *result) says(words ...string) *result {
	r.t.Helper()
	for _, word := range words {
		if !strings.Contains(r.err, word) {
			r.t.Errorf("portalctl %q does not say %q:\n%s", r.args, word, r.err)
		}
	}
	return r
}

// saysNot checks that standard error does not contain the words.
func (r *result) saysNot(words ...string) *result {
	r.t.Helper()
	for _, word := range words {
		if strings.Contains(r.err, word) {
			r.t.Errorf("portalctl %q says %q:\n%s", r.args, word, r.err)
		}
	}
	return r
}

// shows checks standard output.
func (r *result) shows(words ...string) *result {
	r.t.Helper()
	for _, word := range words {
		if !strings.Contains(r.out, word) {
			r.t.Errorf("portalctl %q does not show %q:\n%s", r.args, word, r.out)
		}
	}
	return r
}

// decode reads standard output as JSON.
func decode[T any](r *result) (value T) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.out), &value); err != nil {
		r.t.Fatalf("portalctl %q: %v in:\n%s", r.args, err, r.out)
	}
	return value
}

// job is a job record as programs read it.
type job struct {
	JobID  string
	Status string
	Result map[string]struct{ ID string }
	Error  struct{ Code, Message string }
}

// calls counts the portal's requests on a route.
func (d *desk) calls(method, route string) (count int) {
	for _, e := range d.portal.RequestLog() {
		if e.Method == method && e.Route == route {
			count++
		}
	}
	return count
}

// inject arms a fault.
func (d *desk) inject(f emulator.Fault) {
	d.t.Helper()
	if err := d.portal.Inject(f); err != nil {
		d.t.Fatal(err)
	}
}

// createArgs are those of a small cluster.
func (d *desk) createArgs(name string, more ...string) []string {
	return append([]string{
		"clusters", "create", "--name", name, "--zone-id", "zone-1", "--version", "v1.35.6", "--service-offering-id", "medium",
		"--size", "2", "--control-nodes", "1", "--vpc-id", d.portal.VPCs()[0].ID, "--ssh-key-pair", "ops", "-v",
	}, more...)
}

// create creates a small cluster, and returns its id.
func (d *desk) create(name string, more ...string) string {
	d.t.Helper()
	d.run(d.createArgs(name, more...)...).exits(exitOK)
	clusters := d.portal.Clusters()
	return clusters[len(clusters)-1].ID
}

// fileWith returns the path of a new file with the content.
func fileWith(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// waitIdle lets the portal's requests and jobs end.
func waitIdle() { time.Sleep(3 * time.Minute) }
