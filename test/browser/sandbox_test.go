// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// lines counts the running Machines with a line from their box to the box of the node that they claim.
const lines = `(() => {
	const box = (list, key) => document.querySelector("." + list + " > [data-key='" + key + "']")?.getBoundingClientRect();
	const stage = document.querySelector(".stage")?.getBoundingClientRect();
	return [...document.querySelectorAll(".lines path")].filter((line) => {
		const from = box("machines", line.dataset.key), to = box("nodes", line.dataset.node);
		if (!from || !to || line.dataset.state !== "running") return false;
		const length = line.getTotalLength(), start = line.getPointAtLength(0), end = line.getPointAtLength(length);
		const near = (a, b) => Math.abs(a - b) < 2;
		return near(start.x + stage.left, from.right) && near(start.y + stage.top, from.top + from.height / 2)
			&& near(end.x + stage.left, to.left) && near(end.y + stage.top, to.top + to.height / 2);
	}).length;
})()`

// watch has the page record every state of a Machine and every job that it shows.
const watch = `window.states = new Set(); window.jobs = new Set();
	new MutationObserver(() => {
		document.querySelectorAll(".machines .box").forEach((box) => states.add(box.dataset.state));
		document.querySelectorAll("#jobs progress:not([hidden])").forEach((bar) => { if (bar.value > 0) jobs.add(bar.getAttribute("aria-label")); });
	}).observe(document.body, { subtree: true, childList: true, attributes: true }); true`

// TestSandbox checks the page while a cluster is created, scaled and rolled out: lines, drains and takeovers.
func TestSandbox(t *testing.T) {
	for _, name := range []string{"kube-apiserver", "capi-core-manager", "clusterctl"} {
		if _, err := os.Stat(filepath.Join("..", "..", "bin", name)); err != nil {
			t.Skipf("bin/%s is missing: run make test-browser, which builds it", name)
		}
	}
	s := startSandbox(t)
	page := open(t, s.page)
	eval[bool](page, watch)
	s.run("clusterctl generate cluster shop --from templates/cluster-template.yaml --kubernetes-version v1.34.9 --worker-machine-count 3 | kubectl apply -f -")
	page.wait("three Machines on their nodes", lines+" === 3")
	s.run("kubectl scale machinedeployment shop-workers --replicas 5")
	page.wait("a node that is being made", `document.querySelector(".nodes [data-state=joining]")`)
	page.wait("five Machines on their nodes", lines+" === 5")

	s.run(`kubectl patch machinedeployment shop-workers --type merge --patch '{"spec": {"rollout": {"after": "%s"}}}'`, time.Now().UTC().Format(time.RFC3339))
	page.wait("a takeover", `document.querySelector(".machines [data-state=takeover] .what")?.textContent.includes("takes over node")`)
	page.screenshot("takeover")
	page.wait("the end of a takeover", lines+` === 5 && document.querySelectorAll(".machines .box").length === 5`)

	s.run("kubectl scale machinedeployment shop-workers --replicas 2")
	page.wait("a drain", `document.querySelector(".machines [data-state=draining], .machines [data-state=drained], .nodes [data-state=drained]")`)
	page.wait("its mark in the timeline", `document.querySelector(".timeline .drain")`)
	page.screenshot("scale-down")
	page.wait("two Machines on their nodes", lines+` === 2 && document.querySelectorAll(".machines .box").length === 2 && document.querySelector(".facts").textContent.startsWith("Running")`)

	page.act(s)
	states := eval[[]string](page, `[...states]`)
	for _, state := range []string{"waiting", "running", "takeover", "held"} {
		if !slices.Contains(states, state) {
			t.Errorf("the page never showed a Machine in state %q, only in %q", state, states)
		}
	}
	if jobs := strings.Join(eval[[]string](page, `[...jobs]`), ", "); !strings.Contains(jobs, "create cluster") || !strings.Contains(jobs, "scale cluster") {
		t.Errorf("jobs whose progress the page showed: %s", jobs)
	}
	if title := eval[string](page, `document.title + ", " + document.querySelector("h1").textContent`); title != "Sandbox of the portal provider, Sandbox of the portal provider" {
		t.Errorf("the page of a sandbox has the titles %s", title)
	}
	page.audited("with Machines")
}

// act clicks each action, and asks the API server whether it did what its line says.
func (p *tab) act(s *user) {
	p.t.Helper()
	line := func(label string) string {
		return eval[string](p, fmt.Sprintf(`[...document.querySelectorAll(".actions li")].find((item) => item.querySelector("button").textContent === %q)?.querySelector("code").textContent ?? ""`, label))
	}
	for _, action := range []struct{ label, says, ask, answer string }{
		{"+1 worker", "kubectl scale machinedeployment shop-workers --replicas 3", "kubectl get machinedeployment shop-workers -o jsonpath={.spec.replicas}", "3"},
		{"−1 worker", "kubectl scale machinedeployment shop-workers --replicas 2", "kubectl get machinedeployment shop-workers -o jsonpath={.spec.replicas}", "2"},
		{"Roll out", "date -u", "kubectl get machinedeployment shop-workers -o jsonpath={.spec.rollout.after}", time.Now().UTC().Format("2006-01-02T15:")},
		{"Upgrade to v1.35.6", `kubectl patch portalcontrolplane shop --type merge --patch '{"spec":{"version":"v1.35.6"}}'`, "kubectl get portalcontrolplane shop -o jsonpath={.spec.version}", "v1.35.6"},
		{"Roll out", `{"template":{"spec":{"version":"v1.35.6"}}}`, "kubectl get machinedeployment shop-workers -o jsonpath={.spec.template.spec.version}", "v1.35.6"},
	} {
		p.wait("the line of "+action.label, fmt.Sprintf(`[...document.querySelectorAll(".actions li")].some((item) => item.innerText.includes(%q) && item.innerText.includes(%q))`, action.label, action.says))
		command := line(action.label)
		p.click(action.label)
		p.wait("that it is done", fmt.Sprintf(`document.querySelector("#acted").textContent === %q`, "Done: "+command))
		if got := s.run("%s", action.ask); !strings.HasPrefix(got, action.answer) {
			p.t.Errorf("after %q, %s says %q, want %q", command, action.ask, got, action.answer)
		}
	}
	machine := strings.Fields(line("Delete a Machine"))[3]
	p.click("Delete a Machine")
	p.wait("that the Machine is deleted", fmt.Sprintf(`document.querySelector("#acted").textContent === "Done: kubectl delete machine %s --wait=false"`, machine))
	if got := s.run("kubectl get machine %s --ignore-not-found -o jsonpath='being deleted: {.metadata.deletionTimestamp}'", machine); strings.HasSuffix(got, "deleted: ") {
		p.t.Errorf("Machine %s is not being deleted", machine)
	}
}

// screenshot saves a picture of the clusters for each color scheme if SCREENSHOTS names a directory. It ends where the clusters end.
func (p *tab) screenshot(name string) {
	p.t.Helper()
	directory := os.Getenv("SCREENSHOTS")
	if directory == "" {
		return
	}
	const width = 940 // one column
	p.do(chromedp.EmulateViewport(width, 800, chromedp.EmulateScale(2)))
	height := eval[int64](p, `Math.ceil(document.querySelector("#clusters").getBoundingClientRect().bottom + window.scrollY) + 8`)
	p.do(chromedp.EmulateViewport(width, height, chromedp.EmulateScale(2)))
	for _, scheme := range []string{"light", "dark"} {
		p.prefer("prefers-color-scheme: "+scheme, "prefers-reduced-motion: reduce")
		picture, err := chromedp.Run(p, chromedp.CaptureScreenshot())
		if err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(directory, name+"-"+scheme+".png"), picture, 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	p.do(chromedp.EmulateViewport(1280, 730))
}
