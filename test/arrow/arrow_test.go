// SPDX-License-Identifier: Apache-2.0

// Package arrow tests the dependency rules of the design: main → controllers → cloud → HTTPS, and which rooms of controllers know which, and
// the versions of the modules.
package arrow

import (
	"os/exec"
	"strings"
	"testing"
)

const (
	module = "github.com/capportal/cluster-api-provider-portal"
	room   = "/controllers/portalcontrolplane" // below it are the rooms that only this kind uses
)

// TestArrow checks the dependencies of each package, and fails with the reason for each one that breaks the rule.
func TestArrow(t *testing.T) {
	tests := []struct {
		packages, mustNot string
		allowed           []string
		because           string
	}{
		{"/api/...", module, []string{"/api/"}, "api is types only"},
		{"/api/...", "sigs.k8s.io/controller-runtime", nil, "api is types only; who uses the types brings the machinery"},
		{"/cloud", "k8s.io/", nil, "the portal client knows nothing of Kubernetes"},
		{"/cloud", module, []string{"/cloud"}, "the portal client knows nothing of who uses it"},
		{"/cloud/ratelimit", module, []string{"/cloud/ratelimit"}, "the rate limiter knows nothing of the requests that it orders"},
		{"/cloud/emulator", "k8s.io/", nil, "workload clusters stand behind an interface, in packages of their own"},
		{"/cloud/emulator", module, []string{"/cloud/emulator"}, "shared wire structs would be wrong on both sides, and every test would pass"},
		{"/cloud/emulator/page", "k8s.io/", nil, "the page gets Machines as data; whoever runs it reads them"},
		{"/cloud/emulator/page", module, []string{"/cloud/emulator"}, "the page shows the portal as the emulator has it"},
		{"/cmd/portal-player", "k8s.io/", nil, "it compiles in seconds, to be watched while Kubernetes compiles"},
		{"/controllers/shared/...", module, []string{"/controllers/shared", "/cloud", "/api/", "/version"}, "what the kinds share knows none of them"},
		{"/controllers/shared/removal", module, []string{"/controllers/shared/removal"}, "removals are those of any portal"},
		{"/controllers/shared/persist", module, []string{"/controllers/shared/persist"}, "objects are written alike, whatever they are"},
		{"/controllers/shared/ownerref", module, []string{"/controllers/shared/ownerref"}, "owner references are those of any object"},
		{"/controllers/shared/secretcache", module, []string{"/controllers/shared/secretcache"}, "Secrets are kept for whoever reads them"},
		{"/controllers/shared/outcome", module, []string{"/controllers/shared/outcome", "/api/", "/cloud"}, "every step ends with an outcome, so outcomes know no step"},
		{"/controllers/shared/operation", module, []string{"/controllers/shared/operation", "/controllers/shared/outcome", "/controllers/shared/persist",
			"/controllers/shared/removal", "/api/", "/cloud"}, "an operation knows the request, not who asks for it"},
		{room + "/workers/claims", "k8s.io/", nil, "the plan is a pure function"},
		{room + "/workers/claims", module, []string{room + "/workers/claims", "/controllers/shared/removal"}, "the plan knows nothing of who carries it out"},
		{room + "/workers/drain", module, []string{room + "/workers/drain", "/api/"}, "a drain needs a Node and its rules only"},
		{room + "/access/workload", module, []string{room + "/access/workload", room + "/access/kubeconfig", "/api/"}, "a connection needs a kubeconfig only"},
		{room + "/pass", module + "/controllers", []string{room + "/pass", "/controllers/shared"}, "what a pass reads knows no step"},
		{room + "/access", module + "/controllers", []string{room + "/access", room + "/pass", "/controllers/shared"},
			"the way to a workload cluster is the same, whoever owns it and whatever its workers are"},
		{room + "/ownership", module + "/controllers", []string{room + "/ownership", room + "/pass", "/controllers/shared"},
			"whose a cluster is is known before what becomes of it, and does not depend on its API server"},
		{room + "/lifecycle", module + "/controllers", []string{room + "/lifecycle", room + "/ownership", room + "/pass", room + "/workers/drain", "/controllers/shared"},
			"the lifecycle at the portal does not depend on the API server, and how many workers are wanted is an argument"},
		{room + "/workers", module + "/controllers", []string{room + "/workers", room + "/access", room + "/pass", "/controllers/shared"},
			"the workers are the same, whoever owns the cluster, and are kept in a cluster that exists"},
		{"/controllers/...", module + "/cloud/emulator", nil, "controllers know the portal only as the client shows it"},
		{"/version", module, []string{"/version"}, "every program and package may ask for it"},
		{"", module + "/cloud/emulator", nil, "the manager does not ship the emulator"},
	}
	for _, test := range tests {
		t.Run(strings.Trim(test.packages, "/.")+" without "+test.mustNot, func(t *testing.T) {
			for _, dependency := range dependencies(t, module+test.packages) {
				if breaks(dependency, test.mustNot, test.allowed) {
					t.Errorf("%s depends on %s, but %s", module+test.packages, dependency, test.because)
				}
			}
		})
	}
}

func breaks(dependency, mustNot string, allowed []string) bool {
	if !strings.HasPrefix(dependency, mustNot) && !(mustNot == "k8s.io/" && strings.HasPrefix(dependency, "sigs.k8s.io/")) {
		return false
	}
	for _, prefix := range allowed {
		if dependency == module+prefix || strings.HasPrefix(dependency, module+strings.TrimSuffix(prefix, "/")+"/") {
			return false
		}
	}
	return true
}

func dependencies(t *testing.T, packages string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", packages).Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", packages, err)
	}
	return strings.Fields(string(out))
}
