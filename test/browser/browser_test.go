// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

//go:embed audit.js
var audit string

// patience is how long the page may take to show a change, also one that takes several reconciles on a busy machine.
const patience = 4 * time.Minute

// tab is one page in a browser.
type tab struct {
	context.Context
	t *testing.T

	mu       sync.Mutex
	problems []string // failed scripts, and files that the page was not allowed to load
}

// browserPath returns the path of a browser, or skips the test.
func browserPath(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("BROWSER"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	t.Skip("no browser found: install the package chromium, or set BROWSER to the path of one")
	return ""
}

// open opens a page in a browser of its own.
func open(t *testing.T, url string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browserPath(t)), chromedp.WindowSize(1280, 730),
		chromedp.WSURLReadTimeout(patience))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // a browser does not start as root with its own sandbox
	}
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	page := &tab{Context: ctx, t: t}
	if err := chromedp.Listen(ctx, page.listen); err != nil {
		t.Fatal(err)
	}
	page.do(call(log.Enable, cdp.Empty{}), chromedp.Navigate(url))
	page.wait("the page is live", `document.querySelector("#connection").className === "live"`)
	t.Cleanup(func() {
		page.mu.Lock()
		defer page.mu.Unlock()
		if len(page.problems) > 0 {
			t.Errorf("the browser reports problems:\n%s", strings.Join(page.problems, "\n"))
		}
	})
	return page
}

func (p *tab) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.problems = append(p.problems, (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			p.problems = append(p.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// forgive drops reported problems that the test caused on purpose.
func (p *tab) forgive(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = slices.DeleteFunc(p.problems, func(problem string) bool { return strings.Contains(problem, text) })
}

// do runs actions in the browser.
func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// eval returns the value of an expression, or what its promise becomes.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// call sends a command of the protocol and discards its result.
func call[P, R any](command cdp.Command[P, R], parameters P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, command, parameters)
		return err
	})
}

// wait waits until an expression is true.
func (p *tab) wait(what, expression string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); !eval[bool](p, "Boolean("+expression+")"); time.Sleep(30 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("not seen: %s (%s). The page shows:\n%s", what, expression, eval[string](p, "document.body.innerText"))
		}
	}
}

// click clicks the button with that text.
func (p *tab) click(text string) {
	p.t.Helper()
	p.do(chromedp.Click(fmt.Sprintf(`//button[normalize-space()=%q and not(@hidden)]`, text)))
}

// prefer has the browser report that its user prefers a feature, such as prefers-color-scheme: dark.
func (p *tab) prefer(features ...string) {
	p.t.Helper()
	var media emulation.SetEmulatedMediaParams
	for _, feature := range features {
		name, value, _ := strings.Cut(feature, ": ")
		media.Features = append(media.Features, &emulation.MediaFeature{Name: name, Value: value})
	}
	p.do(call(emulation.SetEmulatedMedia, media))
}

// audited fails the test for each problem of the page with names, roles, headings or contrast, in light and in dark mode.
func (p *tab) audited(what string) {
	p.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		p.prefer("prefers-color-scheme: "+scheme, "prefers-reduced-motion: reduce")
		time.Sleep(300 * time.Millisecond) // until a frame has the new colors
		for _, problem := range eval[[]string](p, audit) {
			p.t.Errorf("%s, %s: %s", what, scheme, problem)
		}
	}
}

// command starts a command of bin/, waits until it has printed a line with the given words, and returns its output. The command ends with the
// test.
func command(t *testing.T, until string, environment []string, name string, arguments ...string) string {
	t.Helper()
	cmd := exec.Command(binary(t, name), arguments...)
	cmd.Env = append(os.Environ(), environment...)
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := errors.Join(cmd.Start(), in.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // fails only if the command has ended
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	said := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said += lines.Text() + "\n"
		if strings.Contains(lines.Text(), until) {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return said
		}
	}
	t.Fatalf("%s ended:\n%s", name, said)
	return ""
}

// binary returns the path of a command that make has built.
func binary(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("run make test-browser, which builds the missing commands: %v", err)
	}
	return path
}
