// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"net/http"
	"strings"
	"testing"
)

// row is one attack.
type row struct {
	// attack describes what the tenant tries.
	attack string
	// heldBy is the control that must stop the attack.
	heldBy string
	// attempt tries the attack, and returns the harm that it did, or "".
	attempt func(*tenant) string
	// alone is true if the attack uses so many resources that it would disturb other rows.
	alone bool
}

// Prefixes of the controls that -without-controls removes.
const (
	policy  = "policy "
	flagged = "flag "
)

// removed reports whether this run is without the row's control.
func (r row) removed() bool {
	return *withoutControls && (strings.HasPrefix(r.heldBy, policy) || strings.HasPrefix(r.heldBy, flagged))
}

// rows are all attacks, with the control that holds each.
var rows = []row{
	{attack: "the kubeconfig of a running cluster is replaced by one that names a file", heldBy: "a kubeconfig is checked when it is used (controllers/portalcontrolplane/access/kubeconfig)",
		attempt: leaksFile},
	{attack: "core reads a file for a kubeconfig that the tenant wrote", heldBy: policy + "kubeconfig Secrets", attempt: coreReadsFile},
	{attack: "the portal's kubeconfig leads to the manager's own host", heldBy: serverHosts, attempt: func(t *tenant) string {
		return t.leadsHome(func(config []byte) bool { return t.create(t.own(config).objects()...) })
	}},
	{attack: "a kubeconfig of the tenant's own leads to the manager's own host", heldBy: serverHosts, attempt: func(t *tenant) string {
		return t.leadsHome(t.replaces)
	}},
	{attack: "clusterID names another's cluster, to delete it", heldBy: adoption, attempt: deletes},
	{attack: "portal-operation names another's job", heldBy: adoption, attempt: namesJob},
	{attack: "annotations of a Cluster's topology reach the control plane by core's hands", heldBy: adoption, attempt: func(t *tenant) string {
		return t.byCore(true)
	}},
	{attack: "annotations of a template reach the control plane by core's hands", heldBy: adoption, attempt: func(t *tenant) string {
		return t.byCore(false)
	}},
	{attack: "portal-network names another's network", heldBy: adoption, attempt: namesNetwork},
	{attack: "the name of another's cluster, after a lost answer", heldBy: "only clusters that the object's own requests made are found by name",
		attempt: sameName},
	{attack: "an identity that allows other namespaces only", heldBy: "allowedNamespaces of a PortalClusterIdentity", attempt: notAllowed},
	{attack: "portals that never answer hold all workers of the manager", heldBy: "one namespace holds a share of the workers",
		attempt: tarPits, alone: true},
	{attack: "an identity names loopback by another name", heldBy: "--portal-host: loopback is refused unless it is listed", attempt: namesLoopback},
	{attack: "conditions reveal what listens on hosts that the tenant cannot reach", heldBy: "conditions say the same of every portal that cannot be reached",
		attempt: conditionsReveal},
	{attack: "a portal redirects the login to another host", heldBy: "redirects of portals are not followed", attempt: portalRedirects},
	{attack: "a portal repeats the password in its refusal", heldBy: "errors carry no secret that the request held", attempt: portalRepeats},
	{attack: "texts of tenants and portals forge lines of the log", heldBy: "the log quotes what it did not write itself", attempt: forgesLog},
	{attack: "a portal's text breaks the lines of a condition", heldBy: "errors of portals are one line", attempt: breaksCondition},
	{attack: "metrics are read without the right", heldBy: flagged + "--insecure-diagnostics=false", attempt: func(t *tenant) string {
		return t.asks(http.MethodGet, "/metrics", "")
	}},
	{attack: "the verbosity of the log is raised without the right", heldBy: "diagnostics ask who uses them", attempt: func(t *tenant) string {
		return t.asks(http.MethodPut, "/debug/flags/v", "10")
	}},
	{attack: "events, conditions and metrics are searched for secrets", heldBy: "secrets never travel", attempt: searches, alone: true},
}

// Controls of several rows. adoption is the policy for a right that a Role in a namespace
// cannot grant, with a row for each harm that it prevents: TestAdoption of package contract tries every write that it refuses.
const (
	serverHosts = "servers on unspecified, link-local and loopback addresses are refused"
	adoption    = policy + "adoption"
)

// TestAttacks tries all rows. Rows that would disturb others run last.
func TestAttacks(t *testing.T) {
	t.Run("together", func(t *testing.T) {
		for i, r := range rows {
			if !r.alone {
				t.Run(r.attack, func(t *testing.T) {
					t.Parallel()
					r.live(t, i)
				})
			}
		}
	})
	for i, r := range rows {
		if r.alone {
			t.Run(r.attack, func(t *testing.T) { r.live(t, i) })
		}
	}
}

// live tries the attack. It fails the test if the attack does harm or, without the control, if the attack does none.
func (r row) live(t *testing.T, number int) {
	if *withoutControls && !r.removed() {
		t.Skipf("the control %q cannot be removed", r.heldBy)
	}
	harm := r.attempt(newTenant(t, number))
	t.Logf("the harm: %q", harm)
	switch {
	case harm != "" && !r.removed():
		t.Errorf("the attack succeeded, so %q does not hold: %s", r.heldBy, harm)
	case harm == "" && r.removed():
		t.Errorf("the attack failed without %q, so it shows nothing", r.heldBy)
	}
}
