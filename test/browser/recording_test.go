// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// startPlayer starts the player and returns its address.
func startPlayer(t *testing.T) string {
	t.Helper()
	browserPath(t) // skips the test before anything starts
	return regexp.MustCompile(`http://\S+`).FindString(command(t, "until Ctrl-C", nil, "portal-player"))
}

// shown is all that the page shows of a moment of a recording.
const shown = `["cluster-list", "jobs", "budgets", "entries", "shown"].map((id) => document.getElementById(id).innerText).join("\n")`

// jump moves the slider to a part of the recording.
func (p *tab) jump(part string) {
	p.t.Helper()
	p.wait("a jump", `(() => {
		const position = document.querySelector("#position");
		position.value = position.max * `+part+`;
		return position.dispatchEvent(new Event("input"));
	})()`)
}

// TestRecording checks that the recording of the demonstration plays and pauses, and that it shows any of its moments.
func TestRecording(t *testing.T) {
	page := open(t, startPlayer(t))
	page.wait("what it is", `document.title === "Recording of make demo" && /earlier run, of v\S+ with seed \d+\./.test(document.querySelector("#player").innerText)`)
	if !eval[bool](page, `document.querySelector("#connection").textContent === "Recording"`) {
		t.Error("the page says that it is live")
	}
	page.wait("that it plays", `document.querySelector("#position").value >= 1 && document.querySelector("#shown").textContent.startsWith("0:0")`)
	page.do(chromedp.SetValue(chromedp.ID("speed"), "8"))
	page.wait("the cluster with its Machines", `document.querySelector(".nodes .box") && document.querySelector(".machines .box") && document.querySelector(".lines path")`)
	page.wait("the news", `document.querySelector("#news").textContent.includes("Cluster demo") && document.querySelector("#news").textContent.includes("is Running.")`)

	page.click("Pause")
	page.wait("the pause", `document.querySelector("#player button").textContent === "Play"`)
	before := eval[string](page, shown)
	time.Sleep(500 * time.Millisecond) // 4 s of the recording
	if after := eval[string](page, shown); after != before {
		t.Errorf("the recording goes on although it is paused:\n%s\n\nwas\n%s", after, before)
	}

	page.jump("0.5")
	middle := eval[string](page, shown)
	if !strings.Contains(middle, "Machines\n") || !strings.Contains(middle, "POST /kubernetes-clusters\t") || strings.Contains(middle, "DELETE /kubernetes-clusters") {
		t.Errorf("in its middle, the recording shows\n%s", middle)
	}
	page.jump("1")
	if end := eval[string](page, shown); !strings.Contains(end, "DELETE /kubernetes-clusters") || !strings.Contains(end, "delete cluster") {
		t.Errorf("at its end, the recording shows\n%s", end)
	}
	page.wait("that nothing is left", `document.querySelector("#no-clusters").checkVisibility() && document.querySelector("article") === null`)
	page.jump("0.5")
	if again := eval[string](page, shown); again != middle {
		t.Errorf("seen again, the middle is\n%s\n\nand was\n%s", again, middle)
	}
	if news := eval[string](page, `document.querySelector("#news").textContent`); news != "" {
		t.Errorf("a jump is told as news: %s", news)
	}

	page.click("Play")
	page.wait("that it goes on", `document.querySelector("#position").value > document.querySelector("#position").max / 2 + 3`)
	page.jump("0.95")
	page.wait("its end", `document.querySelector("#player button").textContent === "Play" && document.querySelector("#no-clusters").checkVisibility()`)
	page.click("Play")
	page.wait("that it begins again", `document.querySelector("#player button").textContent === "Pause" && document.querySelector("#position").value < document.querySelector("#position").max / 2`)
}

// TestTimeline checks that the timeline of the recording has what the demonstration does: each request and its job, the numbers of workers, drains
// and replaced Machines. The page says what the portal was asked, and has nothing to click.
func TestTimeline(t *testing.T) {
	page := open(t, startPlayer(t))
	page.jump("0.2")
	page.click("Pause")
	page.wait("the step", `/^[12] of 7: /.test(document.querySelector("#step-name").innerText) && document.querySelector("#steps").value < 3`)
	early := eval[int](page, `document.querySelectorAll(".timeline .request").length`)
	page.jump("0.5")
	if eval[bool](page, `document.querySelector(".conditions") === null || document.querySelector(".actions button") !== null`) {
		t.Error("a recording offers actions")
	}
	page.jump("0.88") // before it is deleted
	for what, want := range map[string]string{
		`.request").length`:                   "5",    // a create, three scales, an upgrade
		`.job[data-state=succeeded]").length`: "5",    // of each of them
		`.job").length`:                       "5",    // and no other
		`.replaced").length >= 3`:             "true", // the roll-out of two Machines, the one that was deleted, perhaps one during the scale-down
		`.drain").length >= 3`:                "true", // the scale-down of three workers
		`.fault").length`:                     "0",
	} {
		if got := eval[string](page, `String(document.querySelectorAll(".timeline `+what+`)`); got != want {
			t.Errorf("the timeline has %s = %s, want %s", strings.TrimPrefix(what, "."), got, want)
		}
	}
	// A line of 3, then 5, then 2 workers. The axis has the largest number, so levels are parts of the plot's height.
	levels := eval[[]int](page, `(() => {
		const line = document.querySelector(".timeline .line.wanted"), top = 8, plot = 70;
		const heights = [...line.getAttribute("d").matchAll(/[MV] (?:[\d.]+ (?=[\d.]+ H))?([\d.]+)/g)].map((match) => Number(match[1]));
		return heights.map((y) => Math.round((plot - 2 - y) / (plot - top) * 5));
	})()`)
	if !slices.Equal(slices.Compact(levels), []int{3, 5, 2}) {
		t.Errorf("the line of wanted replicas goes through %v, want 3, 5, 2", levels)
	}
	if early >= 5 {
		t.Errorf("the timeline has %d requests near the beginning", early)
	}
	if tally := eval[string](page, `document.querySelector("#tally").innerText.replace(/\s+/g, " ")`); !regexp.MustCompile(`^1 create 3 scales 1 upgrade 0 deletes \d+ reads 0 refused requests 0 Pods lost$`).MatchString(tally) {
		t.Errorf("the page says that the portal was asked %s", tally)
	}
	page.wait("the title of what was recorded", `document.querySelector("h1").textContent === "Sandbox of the portal provider" && document.title === "Recording of make demo"`)
	page.wait("conditions", `document.querySelector(".conditions").innerText.includes("PortalControlPlane demo Available: True")`)
}

// TestRecordingForEveryone checks the player with the keyboard alone, its names and contrasts, and that it waits for a click if its viewer
// prefers reduced motion.
func TestRecordingForEveryone(t *testing.T) {
	page := open(t, startPlayer(t))
	var reached []string
	for range 4 {
		page.do(chromedp.KeyEvent(kb.Tab))
		reached = append(reached, eval[string](page, `document.activeElement.id || document.activeElement.textContent`))
		if outline := eval[string](page, `getComputedStyle(document.activeElement).outlineStyle`); outline != "solid" {
			t.Errorf("the focus on %q is not visible: outline %s", reached[len(reached)-1], outline)
		}
	}
	if got := strings.Join(reached, ", "); got != "Skip to the clusters, Pause, speed, position" {
		t.Errorf("the Tab key reached %s", got)
	}
	page.do(chromedp.KeyEvent(kb.End))
	page.wait("the end", `document.querySelector("#no-clusters").checkVisibility() && document.querySelector("#entries").innerText.includes("DELETE")`)
	page.do(chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent(kb.ArrowRight))
	page.wait("the third second", `/^0:0[23] of \d:\d\d$/.test(document.querySelector("#position").getAttribute("aria-valuetext"))`)

	page.do(chromedp.Focus(chromedp.CSS("#player button")))
	if eval[string](page, `document.activeElement.textContent`) == "Pause" {
		page.do(chromedp.KeyEvent(" "))
	}
	page.wait("the pause", `document.querySelector("#player button").textContent === "Play"`)
	page.jump("0.5")
	if !eval[bool](page, `document.querySelector("#read-only").innerText === "A recording cannot be changed."
		&& [...document.querySelectorAll("#order input, #faults button, #faults textarea")].every((control) => control.matches(":disabled"))`) {
		t.Error("a recording has something to change")
	}
	page.audited("a recording")
	page.do(chromedp.Reload())
	page.wait("the recording again", `document.querySelector("#player button")?.textContent === "Play"`)
	time.Sleep(500 * time.Millisecond)
	if position := eval[string](page, `document.querySelector("#shown").textContent`); !strings.HasPrefix(position, "0:00 of ") {
		t.Errorf("the recording plays although its viewer prefers reduced motion: %s", position)
	}
}

// TestRecordingAsFiles checks that a server of files can show the recording in a folder of its site.
func TestRecordingAsFiles(t *testing.T) {
	browserPath(t)
	folder := t.TempDir()
	if out, err := exec.Command(binary(t, "portal-player"), "--write", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	site := httptest.NewServer(http.StripPrefix("/project/demo", http.FileServer(http.Dir(folder))))
	defer site.Close()
	page := open(t, site.URL+"/project/demo/")
	page.jump("0.5")
	page.wait("Machines with their nodes", `document.querySelector(".lines path")`)
	page.wait("that it plays", `document.querySelector("#position").value > document.querySelector("#position").max / 2 + 2`)
}
