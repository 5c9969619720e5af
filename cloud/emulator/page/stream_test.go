// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

// browser reads one event stream.
type browser struct {
	mu     sync.Mutex
	body   bytes.Buffer
	header http.Header
	status int
	gone   context.CancelFunc
}

func (b *browser) Header() http.Header    { return b.header }
func (b *browser) WriteHeader(status int) { b.status = status }
func (b *browser) Flush()                 {}
func (b *browser) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.body.Write(p)
}

// count returns how many times the stream has sent a text.
func (b *browser) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.body.String(), text)
}

// open opens a stream, which ends when the browser disconnects.
func open(t *testing.T, handler http.Handler) *browser {
	t.Helper()
	b := &browser{header: http.Header{}, status: 200}
	b.gone = openStream(t, handler, b)
	return b
}

// openStream opens a stream that sends to w, until the returned function is called.
func openStream(t *testing.T, handler http.Handler, w http.ResponseWriter) context.CancelFunc {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8445/events", nil)
	go handler.ServeHTTP(w, r)
	return cancel
}

const (
	stateEvent = "event: state\n"
	logEvent   = "event: log\n"
)

// TestStream checks that a stream sends the state after a change and the log after a new entry, at a bounded rate. A page that opens late gets only
// the end of a long log.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPortal(t, emulator.Options{})
		b := open(t, page.Handler(page.Options{Portal: p}))
		defer b.gone()
		time.Sleep(5 * time.Second)
		if b.count(stateEvent) != 1 || b.count(logEvent) != 1 {
			t.Errorf("the stream sent data without a change: %s", b.body.String())
		}
		for i := range 1000 { // 10 s with a change every 10 ms
			if err := p.SetVictimOrder([]emulator.VictimOrder{emulator.VictimsNewest, emulator.VictimsOldest, emulator.VictimsRandom}[i%3]); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if states, logs := b.count(stateEvent), b.count(logEvent); states < 15 || states > 42 || logs < 38 || logs > 42 {
			t.Errorf("%d states and %d parts of the log in 10 s, want about 40 of each", states, logs)
		}
		if n := b.count(`"id":"victim order"`); n != 1000 {
			t.Errorf("the stream sent %d of 1000 entries of the log", n)
		}
		time.Sleep(time.Minute)
		if n := b.count("\n:\n"); n < 3 || n > 5 {
			t.Errorf("%d keep-alives in a minute without changes", n)
		}
		late := open(t, page.Handler(page.Options{Portal: p}))
		defer late.gone()
		time.Sleep(time.Second)
		if n := late.count(`"id":"victim order"`); n != 200 {
			t.Errorf("the stream of a late page began with %d entries", n)
		}
	})
}

// TestStreamsAreBounded checks that at most sixteen pages can be open, that a closed page frees its place, and that all pages share one
// reading of the state.
func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPortal(t, emulator.Options{})
		var readings atomic.Int64
		handler := page.Handler(page.Options{Portal: p, Kubernetes: func(context.Context) (page.Kubernetes, error) {
			readings.Add(1)
			return page.Kubernetes{}, nil
		}})
		var all []*browser
		for range 17 {
			all = append(all, open(t, handler))
			synctest.Wait()
		}
		if all[15].status != 200 || all[16].status != 503 {
			t.Errorf("the sixteenth page got %d, the next %d", all[15].status, all[16].status)
		}
		time.Sleep(10 * time.Second)
		if n := readings.Load(); n > 42 {
			t.Errorf("%d readings of the state in 10 s", n)
		}
		all[0].gone()
		synctest.Wait()
		late := open(t, handler)
		synctest.Wait()
		if late.status != 200 {
			t.Errorf("after a page was closed: %d", late.status)
		}
		for _, b := range append(all, late) {
			b.gone()
		}
	})
}
