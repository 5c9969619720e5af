// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const noCapacity = "The next scale finds no capacity"

// TestPicture checks that a cluster, its nodes, its job and the requests for it appear without a reload.
func TestPicture(t *testing.T) {
	p := startPortal(t, "--job-duration=create=2s")
	page := open(t, p.page)
	if !eval[bool](page, `document.querySelector("#no-clusters").checkVisibility()`) {
		t.Error("the page of an empty portal does not say that it is empty")
	}
	cluster := p.create("first", 2)
	page.wait("the cluster", `document.querySelector("article h3")?.textContent === "first"`)
	page.wait("that it runs", `document.querySelector("article .facts").textContent.startsWith("Running")`)
	page.wait("its nodes", `document.querySelectorAll("article .nodes .box[data-state=up]").length === 3`)
	page.wait("the job", `document.querySelector("#jobs li").textContent.includes("create cluster first: succeeded")`)
	page.wait("the request", `[...document.querySelectorAll("#entries tr")].some((row) => row.innerText.includes("POST /kubernetes-clusters\t202"))`)
	page.wait("the budget", `document.querySelector("#budgets meter").value > 0`)
	page.wait("the news", `document.querySelector("#news").textContent.includes("Cluster first is Running.")`)
	page.wait("the newest first, in both lists", `(() => {
		const place = (list, text) => [...document.querySelectorAll(list)].findIndex((item) => item.innerText.includes(text));
		return place("#news li", "Cluster first is Running.") < place("#news li", "Cluster first is new")
			&& place("#entries tr", "GET /jobs") < place("#entries tr", "POST /login");
	})()`)
	page.wait("what the portal was asked", `document.querySelector("#tally").innerText.replace(/\s+/g, " ").startsWith("1 create 0 scales 0 upgrades 0 deletes")`)
	page.wait("the timeline", `document.querySelector(".timeline .line.size").getTotalLength() > 100
		&& document.querySelectorAll(".timeline .job[data-state=succeeded]").length === 1 && document.querySelectorAll(".timeline .request").length === 1`)
	if title := eval[string](page, `document.title + ", " + document.querySelector("h1").textContent`); title != "Portal emulator, Portal emulator" {
		t.Errorf("the page of an emulator has the titles %s", title)
	}
	if eval[bool](page, `document.querySelector(".actions button, #step:not([hidden])") !== null`) {
		t.Error("an emulator without Kubernetes offers actions or has steps")
	}

	if eval[int](page, `document.querySelectorAll("tr.change").length`) == 0 || eval[bool](page, `document.querySelector("tr.change").checkVisibility()`) {
		t.Error("the page shows changes of state before the user selects them")
	}
	page.do(chromedp.Click(chromedp.CSS("#show-changes")))
	page.wait("changes of state", `document.querySelector("tr.change").checkVisibility()`)
	page.do(chromedp.Click(chromedp.CSS("#hide-looks")))
	page.wait("no looks at jobs", `document.querySelector("tr.look") && ![...document.querySelectorAll("tr.look")].some((row) => row.checkVisibility())`)

	p.run("portalctl clusters delete %s --yes --no-wait", cluster)
	page.wait("that the cluster is being deleted", `document.querySelector("article .facts")?.textContent.startsWith("Deleting")`)
	page.wait("its end", `document.querySelector("article") === null && document.querySelector("#no-clusters").checkVisibility()`)
}

// TestFaults checks that a click arms a fault that strikes, and that another click removes it. A cluster in Alert has a button, by which a
// person repairs it as the portal's operator does.
func TestFaults(t *testing.T) {
	p := startPortal(t, "--job-duration=all=1s")
	cluster := p.create("first", 2)
	page := open(t, p.page)
	page.click(noCapacity)
	page.wait("the fault", `document.querySelectorAll("#armed li").length === 1`)
	p.run("! portalctl clusters scale %s --size 3", cluster)
	page.wait("that it takes effect", `document.querySelector("#armed .hits").textContent === "affected 1 of 1 calls, spent"`)
	page.wait("its span in the timeline, which has ended", `(() => {
		const fault = document.querySelector(".timeline .fault");
		return fault && Number(fault.getAttribute("x")) + Number(fault.getAttribute("width")) < document.querySelector(".timeline").clientWidth - 8;
	})()`)
	page.wait("the refused request", `document.querySelector("tr.refused")?.textContent.includes("INSUFFICIENT_CAPACITY")`)
	page.click("Remove")
	page.wait("that it is gone", `document.querySelectorAll("#armed li").length === 0`)
	page.wait("the focus where the fault was", `document.activeElement.id === "armed-heading"`)

	page.do(chromedp.SetValue(chromedp.ID("fault"), `{"path": "/vpcs", "stauts": 503}`))
	page.click("Arm this fault")
	page.wait("why it is refused", `document.querySelector("#answer").textContent.includes("stauts")`)
	page.forgive("400 (Bad Request)")
	page.do(chromedp.SetValue(chromedp.ID("fault"), `{"id": "<b>mine</b>", "path": "/kubernetes-clusters/*/scale", "job": "failed", "alert": true}`))
	page.click("Arm this fault")
	page.wait("it as text, not as HTML", `document.querySelector("#armed .title")?.textContent.trim() === "<b>mine</b>"`)
	p.run("! portalctl clusters scale %s --size 3", cluster)
	page.wait("that the cluster is in Alert", `document.querySelector("article .facts").textContent.startsWith("Alert")`)
	page.click("Repair cluster first")
	page.wait("that it is repaired", `document.querySelector("article .facts").textContent.startsWith("Running")`)
	page.wait("that the button is gone", `document.querySelectorAll("#repairs button").length === 0`)
	page.wait("the answer", `document.querySelector("#answer").textContent === "Cluster first is repaired."`)
	page.click("Remove all faults")
	page.wait("that all are gone", `document.querySelector("#no-faults").checkVisibility()`)
	if faults := strings.TrimSpace(p.ask("GET", "/faults", "")); faults != "[]" {
		t.Errorf("the emulator has %s", faults)
	}
}

// TestReconnect checks that an open page reports the end of the emulator, and shows the next emulator without the records of the first.
func TestReconnect(t *testing.T) {
	const oneLogin = `[...document.querySelectorAll("#entries tr")].filter((row) => row.innerText.includes("POST /login")).length === 1`
	var page *tab
	var address string
	t.Run("first emulator", func(first *testing.T) {
		p := startPortal(first)
		p.run("portalctl login")
		page, address = open(t, p.page), p.page
		page.wait("the first log", oneLogin)
	})
	if page == nil {
		return // no browser, so the test is skipped
	}
	page.wait("that the emulator is gone", `document.querySelector("#connection").textContent.startsWith("No connection")`)
	next := startPortal(t, "--page-listen="+strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/"))
	page.wait("the next emulator", `document.querySelector("#connection").textContent === "Live"`)
	page.wait("its empty log", `!document.querySelector("#entries").innerText.includes("POST /login")`)
	next.run("portalctl login")
	page.wait("its log", oneLogin)
	page.forgive("net::ERR_")
}

// TestReadOnly checks that a page without the admin listener has nothing to click, and that it explains why.
func TestReadOnly(t *testing.T) {
	p := startPortal(t, "--admin-listen=")
	page := open(t, p.page)
	page.wait("why", `document.querySelector("#read-only").checkVisibility() && document.querySelector("#read-only").textContent.includes("--admin-listen")`)
	page.wait("the faults", `document.querySelectorAll("#presets button").length > 5`)
	if !eval[bool](page, `[...document.querySelectorAll("#order input, #faults button, #faults textarea")].every((control) => control.matches(":disabled"))`) {
		t.Error("the page has something to click")
	}
}

// TestKeyboard checks that the Tab key reaches every control, each focus is visible, and keys have the effect of a click.
func TestKeyboard(t *testing.T) {
	p := startPortal(t, "--job-duration=all=1s")
	p.create("first", 1)
	page := open(t, p.page)
	page.wait("the faults", `document.querySelectorAll("#presets button:enabled").length > 5`)
	page.click(noCapacity)
	page.wait("a fault to remove", `document.querySelectorAll("#armed button").length === 1`)
	eval[bool](page, `document.activeElement.blur(); document.querySelector("h1").scrollIntoView(); true`)
	// A group of radio buttons is one stop.
	want := eval[[]string](page, `[...document.querySelectorAll("a[href], button, summary, textarea, input:not([type=radio]), input:checked, [tabindex='0']")]
			.filter((e) => e.checkVisibility() && !e.matches(":disabled")).map((e) => e.id || e.textContent || e.name)`)
	var reached []string
	for range len(want) + 1 { // once round, past the window itself
		page.do(chromedp.KeyEvent(kb.Tab))
		if eval[bool](page, `document.activeElement === document.body`) {
			continue
		}
		stop := eval[struct{ Name, Outline string }](page, `(() => { const e = document.activeElement;
			return { name: e.id || e.textContent || e.name, outline: getComputedStyle(e).outlineStyle + " " + getComputedStyle(e).outlineWidth } })()`)
		reached = append(reached, stop.Name)
		if stop.Outline != "solid 3px" {
			t.Errorf("the focus on %q is not visible: outline %s", stop.Name, stop.Outline)
		}
	}
	slices.Sort(want)
	slices.Sort(reached)
	if !slices.Equal(want, reached) {
		t.Errorf("the Tab key reached\n%q, want\n%q", reached, want)
	}

	page.do(chromedp.Focus(`//button[contains(., "Every answer")]`), chromedp.KeyEvent(kb.Enter))
	page.wait("the fault that a key armed", `document.querySelectorAll("#armed li").length === 2`)
	page.do(chromedp.Focus(chromedp.CSS(`input[value=newest]`)), chromedp.KeyEvent(kb.ArrowDown))
	page.wait("the order that a key changed", `document.querySelector("#answer").textContent.includes("oldest")`)
	if order := p.ask("GET", "/victim-order", ""); !strings.Contains(order, "oldest") {
		t.Errorf("the emulator has %s", order)
	}
	page.do(chromedp.Focus(chromedp.CSS(".skip")), chromedp.KeyEvent(kb.Enter))
	page.wait("the clusters have the focus", `document.activeElement.id === "clusters"`)
}

// animations lists the animations of a box and of the line of a drain.
const animations = `(() => {
	const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
	line.dataset.state = "draining";
	document.querySelector(".lines").append(line);
	const names = getComputedStyle(document.querySelector(".box")).animationName + " " + getComputedStyle(line).animationName;
	line.remove();
	return names;
})()`

// TestAccessible checks names, roles, headings and contrast, in dark and in light mode. It also checks that nothing moves for users who
// prefer reduced motion.
func TestAccessible(t *testing.T) {
	p := startPortal(t, "--job-duration=create=1s,scale=20s")
	cluster := p.create("first", 2)
	page := open(t, p.page)
	page.click("Other users take the rate limit")
	page.click(noCapacity)
	page.wait("a refused request", `document.querySelectorAll("#armed li").length === 2`)
	p.run("! portalctl clusters scale %s --size 3", cluster)
	p.run("portalctl clusters scale %s --size 1 --no-wait", cluster)
	page.wait("a node that leaves", `document.querySelector(".box[data-state=leaving]") && document.querySelector("#jobs progress:not([hidden])")`)
	page.audited("an emulator")
	if moving := eval[string](page, animations); moving != "none none" {
		t.Errorf("elements move although the user prefers reduced motion: %s", moving)
	}
	page.prefer("prefers-color-scheme: light")
	if moving := eval[string](page, animations); moving != "appear flow" {
		t.Errorf("elements that move: %s", moving)
	}
	light := eval[string](page, `getComputedStyle(document.body).backgroundColor`)
	page.prefer("prefers-color-scheme: dark")
	if dark := eval[string](page, `getComputedStyle(document.body).backgroundColor`); light == dark {
		t.Errorf("dark and light are both %s", dark)
	}
}
