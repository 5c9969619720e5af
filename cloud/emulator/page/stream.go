// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const (
	// interval is the shortest time between two states of a stream: a person cannot follow more changes than that.
	interval = 250 * time.Millisecond
	// maxStreams is how many streams may be open at a time. A browser keeps one for each tab.
	maxStreams = 16
	// logLength is how many entries of the log a page gets at once. A page that is opened shows the last ones.
	logLength = 200
	// heartbeat is the longest time in which a stream sends nothing, so that a browser that went away is noticed.
	heartbeat = 15 * time.Second
	// readTimeout is how long reading the state may take before the page shows the portal without the Machines.
	readTimeout = 2 * time.Second
	// unwatched is the time between two readings for the history while no page is open.
	unwatched = time.Second
)

// The events of a stream.
const (
	stateEvent   = "state"   // all that the page shows beside the log and the timelines
	logEvent     = "log"     // entries of the log that follow those sent before
	historyEvent = "history" // moments of the timelines that follow those sent before
)

// events answers GET /events.
func (p *page) events(w http.ResponseWriter, r *http.Request) {
	select {
	case p.streams <- struct{}{}:
		defer func() { <-p.streams }()
	default:
		http.Error(w, "Too many pages are open. Close one of them.", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s := &stream{page: p, w: w, control: http.NewResponseController(w)}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if err := s.update(r.Context()); err != nil {
			return // the browser has gone
		}
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}

// stream is one open page.
type stream struct {
	*page
	w       http.ResponseWriter
	control *http.ResponseController

	state  []byte // sent last
	logged int    // entries of the log that were sent, or are too old to be
	told   int    // the same of the history
	sent   time.Time
}

// update sends what has changed since the last update.
func (s *stream) update(ctx context.Context) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(requestTimeout)) // what cannot have a deadline is no connection
	state, err := s.current(ctx)
	if err != nil {
		return err
	}
	if !bytes.Equal(state, s.state) {
		if err := s.send(stateEvent, state); err != nil {
			return err
		}
		s.state = state
	}
	entries, logged := s.logFrom(s.logged)
	moments, told := s.historyFrom(s.told)
	if err := errors.Join(sendAll(s, logEvent, entries), sendAll(s, historyEvent, moments)); err != nil {
		return err
	}
	s.logged, s.told = logged, told
	if time.Since(s.sent) < heartbeat {
		return nil
	}
	return s.send("", nil)
}

// sendAll sends a list as one event, unless it is empty.
func sendAll[T any](s *stream, event string, list []T) error {
	if len(list) == 0 {
		return nil
	}
	data, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return s.send(event, data)
}

// send writes one event, or a comment that a browser ignores.
func (s *stream) send(event string, data []byte) error {
	text := ":\n\n"
	if event != "" {
		text = fmt.Sprintf("event: %s\ndata: %s\n\n", event, data)
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	s.sent = time.Now()
	return s.control.Flush()
}

// logFrom returns the last entries of the portal's log after the first n, and how many entries the log has.
func (p *page) logFrom(n int) ([]emulator.LogEntry, int) {
	if p.Portal == nil {
		return nil, 0
	}
	entries, all := p.Portal.RequestLogFrom(n)
	return entries[max(0, len(entries)-logLength):], all
}

// historyFrom returns the moments of the history after the first n, and how many there were.
func (p *page) historyFrom(n int) ([]Moment, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.history.from(n)
}

// watch reads the state for the history until the context ends, so that a page shows what happened before it was opened.
func (p *page) watch(ctx context.Context) {
	for ticker := time.NewTicker(unwatched); ; {
		_, _ = p.current(ctx) // a page that is open gets the error
		select {
		case <-ctx.Done():
			ticker.Stop()
			return
		case <-ticker.C:
		}
	}
}

// current returns the state as JSON. Streams that ask before it is due again share one reading.
func (p *page) current(ctx context.Context) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != nil && time.Since(p.stateAt) < p.Every {
		return p.state, nil
	}
	// Others share the reading, so it does not end with the stream that asked first.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	now, moments := p.read(ctx)
	if p.Portal == nil {
		p.history.addFleet(now, moments, time.Now())
	} else {
		entries, all := p.Portal.RequestLogFrom(p.history.logged)
		p.history.logged = all
		p.history.add(now, entries, p.Portal.Jobs(), time.Now())
		now.Tally = p.history.tally
	}
	state, err := json.Marshal(now)
	if err != nil {
		return nil, err
	}
	p.state, p.stateAt = state, time.Now()
	return state, nil
}
