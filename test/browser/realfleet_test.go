// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// realFleet is how many clusters the management cluster has.
const realFleet = 30

// TestRealFleet checks the page that portalctl serves for a management cluster with 30 Clusters, of which one waits for a person, with the
// rights of the example's Role: problems first, a settled cluster with its Machines, lines and timeline, and nothing that only the emulator
// knows. Without the Role, portalctl says what is missing.
func TestRealFleet(t *testing.T) {
	s := startSandbox(t, "--job-duration=1s")
	s.run(`for i in {01..%d}; do
		clusterctl generate cluster shop-$i --from templates/cluster-template.yaml --kubernetes-version v1.34.9 --worker-machine-count 1
		echo ---
	done | kubectl apply -f -`, realFleet)
	reader := filepath.Join(t.TempDir(), "reader.kubeconfig")
	s.run(`kubectl create serviceaccount reader
	kubectl config view --raw > %[1]s
	token=$(kubectl create token reader)
	kubectl --kubeconfig %[1]s config set-credentials reader --token "$token"
	kubectl --kubeconfig %[1]s config set-context --current --user reader`, reader)
	if refused := s.run("portalctl page --kubeconfig %s --namespace default --listen 127.0.0.1:0 2>&1 || test $? = 5", reader); !strings.Contains(refused, "portal-reader") {
		t.Errorf("without the Role, portalctl says: %s", refused)
	}
	s.run(`sed 's/team-a/default/' config/examples/tenant-roles.yaml | kubectl apply -f -
	kubectl create rolebinding reader --role portal-reader --serviceaccount default:reader`)
	said := command(t, "Ctrl-C", nil, "portalctl", "page", "--kubeconfig", reader, "--namespace", "default", "--listen", "127.0.0.1:0")
	page := open(t, first(t, `at (http://\S+)`, said))

	counts := func(problem, settled int) string {
		return fmt.Sprintf(`document.querySelector("#fleet-counts").textContent === "%d clusters: %d with a problem, 0 changing, %d settled"`, realFleet, problem, settled)
	}
	page.wait("a settled fleet", counts(0, realFleet))
	s.run("kubectl scale machinedeployment shop-07-workers --replicas 3")
	page.wait("a cluster that changes", `document.querySelector("article[data-rank=changing] h3")?.textContent === "shop-07"`)
	page.wait("its request and its job in the timeline", `document.querySelector("article .timeline .request") && document.querySelector("article .timeline .job")`)
	page.wait("its words", `document.querySelector("#news").innerText.includes("default/shop-07: The portal accepted the scale")`)
	page.wait("a settled fleet", counts(0, realFleet))
	s.run(`kubectl patch portalcontrolplane shop-21 --type merge --patch '{"spec":{"version":"v9.9.9"}}'`)
	page.wait("one problem", counts(1, realFleet-1))
	page.wait("it comes first, with its reason", `document.querySelector("article h3").textContent === "shop-21"
		&& document.querySelector("article .conditions").innerText.includes("VersionNotOffered")`)
	only := func(words string) {
		eval[bool](page, fmt.Sprintf(`document.querySelector("#filter").value = %q; document.querySelector("#filter").dispatchEvent(new Event("input"))`, words))
	}
	only("shop-2")
	page.wait("ten of them", `document.querySelectorAll("article").length === 10`)
	page.screenshot("fleet")

	only("shop-07")
	page.do(chromedp.Click(chromedp.CSS("summary")))
	page.wait("three Machines on their nodes", lines+" === 3")
	page.wait("sizes of the past", `document.querySelectorAll("article .timeline .line").length === 3 && document.querySelector("article .facts").textContent.includes("3 workers, 3 Ready")`)
	for _, only := range []string{"#tally", "#budgets", "#trouble-heading", "#log", "#faults"} {
		if eval[bool](page, fmt.Sprintf(`document.querySelector(%q).checkVisibility()`, only)) {
			t.Errorf("the page shows %s, of which a management cluster knows nothing", only)
		}
	}
	page.audited("a fleet without a portal")
}
