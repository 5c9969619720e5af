// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// fleetTime is how long the page may take to show a fleet, and to scroll through it, in milliseconds.
const fleetTime = 2000

// TestFleet checks that 300 clusters are shown in less than two seconds and scroll, that those with problems come first, that settled ones are
// one line each until somebody opens them, and that the filter selects clusters.
func TestFleet(t *testing.T) {
	const fleet = 300
	p := startPortal(t, "--rate-limit=100000", "--job-duration=create=1s,scale=5m")
	p.ask("POST", "/faults", `{"method": "POST", "path": "/kubernetes-clusters", "job": "failed-late", "nth": 200, "count": 1}`)
	p.run("for i in {000..%d}; do %s --no-wait --name cluster-$i; done", fleet-1, p.creation(3))
	for strings.Contains(p.ask("GET", "/clusters", ""), `"Creating"`) {
		time.Sleep(200 * time.Millisecond)
	}
	var clusters []struct{ ID, Name string }
	if err := json.Unmarshal([]byte(p.ask("GET", "/clusters", "")), &clusters); err != nil {
		t.Fatal(err)
	}
	p.run("portalctl clusters scale %s --size 4 --no-wait", clusters[250].ID)

	page := open(t, p.page)
	page.do(chromedp.Reload())
	page.wait("the fleet", `document.querySelectorAll("article").length === 300`)
	// The time from the beginning of the navigation until the frame after the clusters are there, which polling only lengthens.
	took := eval[float64](page, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))`)
	if took > fleetTime {
		t.Errorf("%d clusters are shown after %.0f ms", fleet, took)
	}
	scrolled := eval[float64](page, `(async () => {
		const begin = performance.now(), frame = () => new Promise(requestAnimationFrame);
		for (let part = 0; part <= 20; part++) {
			window.scrollTo(0, document.documentElement.scrollHeight * part / 20);
			await frame();
		}
		return performance.now() - begin;
	})()`)
	if scrolled > fleetTime || !eval[bool](page, `window.scrollY > 2000`) {
		t.Errorf("scrolling through %d clusters takes %.0f ms", fleet, scrolled)
	}
	t.Logf("%d clusters are shown after %.0f ms, and scroll in %.0f ms", fleet, took, scrolled)

	page.wait("problems and changes first", `(() => {
		const ranks = [...document.querySelectorAll("article")].map((article) => article.dataset.rank);
		return ranks[0] === "problem" && ranks[1] === "changing" && ranks.slice(2).every((rank) => rank === "settled");
	})()`)
	page.wait("which they are", `document.querySelector("article h3").textContent === "cluster-199" && document.querySelectorAll("article h3")[1].textContent === "cluster-250"
		&& document.querySelector("#fleet-counts").textContent === "300 clusters: 1 with a problem, 1 changing, 298 settled"`)
	page.wait("settled clusters as one line each", `document.querySelectorAll("article details[open]").length === 2
		&& [...document.querySelectorAll("[data-rank=settled]")].every((article) => article.querySelector(".timeline, .box") === null)`)

	page.do(chromedp.SendKeys(chromedp.ID("filter"), "settled 042"))
	page.wait("one cluster", `document.querySelectorAll("article").length === 1 && document.querySelector("article h3").textContent === "cluster-042"`)
	page.do(chromedp.Click(chromedp.CSS("summary")))
	page.wait("its nodes and its timeline", `document.querySelectorAll("article .nodes .box").length === 4 && document.querySelector("article .timeline .line.size")`)
	eval[bool](page, `document.querySelector("#filter").value = ""; document.querySelector("#filter").dispatchEvent(new Event("input"))`)
	page.wait("all again, with the opened one still open", `document.querySelectorAll("article").length === 300 && document.querySelectorAll("details[open]").length === 3`)
	page.audited("a fleet")
}
