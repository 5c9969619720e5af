// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// user is a user at a terminal, beside a program that serves a page.
type user struct {
	t           *testing.T
	environment []string
	page, admin string // addresses
}

// startPortal starts an emulator whose clusters exist only in its records.
func startPortal(t *testing.T, arguments ...string) *user {
	t.Helper()
	browserPath(t) // skips the test before anything starts
	ca := filepath.Join(t.TempDir(), "ca.crt")
	arguments = append([]string{"--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--page-listen=127.0.0.1:0", "--ca-file", ca}, arguments...)
	said := command(t, "Ctrl-C", []string{"PORTAL_EMULATOR_PASSWORD=try-me", "KUBEBUILDER_ASSETS="}, "portal-emulator", arguments...)
	field := func(word string) string { return first(t, `(?m)^\s+`+word+`\s+(\S+)`, said) }
	return &user{t: t, page: field("Page"), admin: field("Admin"), environment: []string{
		"PORTAL_URL=" + field("URL"), "PORTAL_EMAIL=admin@portal.example", "PORTAL_PASSWORD=try-me", "PORTAL_CA_FILE=" + ca,
	}}
}

// startSandbox starts a sandbox whose jobs take long enough to be visible on the page.
func startSandbox(t *testing.T, arguments ...string) *user {
	t.Helper()
	browserPath(t) // skips the test before anything starts
	said := command(t, "Ctrl-C ends everything", nil, "portal-sandbox", append([]string{"--page-listen=127.0.0.1:0", "--job-duration=6s", "--victim-order=random", "--seed=7"}, arguments...)...)
	u := &user{t: t, page: first(t, `in a browser: (\S+)`, said)}
	for _, export := range regexp.MustCompile(`(?m)^  export ([A-Z_]+=[^$\s]+)$`).FindAllStringSubmatch(said, -1) {
		u.environment = append(u.environment, export[1])
	}
	return u
}

// first returns what the group of an expression matches first.
func first(t *testing.T, expression, text string) string {
	t.Helper()
	match := regexp.MustCompile(expression).FindStringSubmatch(text)
	if match == nil {
		t.Fatalf("no %s in:\n%s", expression, text)
	}
	return match[1]
}

// run runs a shell command as the user would, and returns its output.
func (u *user) run(format string, arguments ...any) string {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", fmt.Sprintf(format, arguments...))
	cmd.Env, cmd.Dir = append(os.Environ(), u.environment...), filepath.Join("..", "..")
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(binary(u.t, "portalctl"))+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.t.Fatalf("%s: %v\n%s", cmd.Args[4], err, out)
	}
	return string(out)
}

// creation returns the command that creates a cluster of a size, without its name.
func (u *user) creation(size int) string {
	u.t.Helper()
	vpc := first(u.t, `"id": "(.+)"`, u.run("portalctl vpcs list -o json"))
	return fmt.Sprintf("portalctl clusters create --zone-id zone-1 --version v1.36.3 --service-offering-id small --control-nodes 1 "+
		"--ssh-key-pair ops --vpc-id %s --size %d", vpc, size)
}

// create creates a cluster at the portal, waits until it runs, and returns its id.
func (u *user) create(name string, size int) string {
	u.t.Helper()
	return first(u.t, `"id": "(cluster-.+)"`, u.run("%s --name %s -o json", u.creation(size), name))
}

// ask sends a request to the emulator's admin listener, and returns the answer.
func (u *user) ask(method, path, body string) string {
	u.t.Helper()
	request, err := http.NewRequestWithContext(u.t.Context(), method, u.admin+path, strings.NewReader(body))
	if err != nil {
		u.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		u.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		u.t.Fatalf("%s: %s %s %v", path, response.Status, answer, err)
	}
	return string(answer)
}
