// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Entry is one line of the journal: a request, or a change of state. No entry holds a secret: bodies, tokens,
// kubeconfigs and reset links are never recorded.
type Entry struct {
	Time    time.Time `json:"time"` // of the request's arrival, or of the change; the machine's clock
	Account string    `json:"account,omitempty"`

	// Of a request.
	RequestID string `json:"requestId,omitempty"`
	User      string `json:"user,omitempty"`   // id
	Method    string `json:"method,omitempty"` // empty for changes of state
	Route     string `json:"route,omitempty"`  // the endpoint's path template; empty: there is no such endpoint
	Path      string `json:"path,omitempty"`   // as requested, without query
	Status    int    `json:"status,omitempty"` // 0: the connection was cut
	Code      string `json:"code,omitempty"`   // of an error
	Fault     string `json:"fault,omitempty"`  // ids of the faults that struck
	Violation string `json:"violation,omitempty"`

	// Of a change of state.
	Object string `json:"object,omitempty"` // job, cluster, node, network, vpc, volume, token, fault, portal
	ID     string `json:"id,omitempty"`     // of the object; a node's name
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Removal is set where a node is removed whose machine was seen by Kubernetes: not at a cluster's deletion.
	Removal *Removal `json:"removal,omitempty"`
}

// IsRequest reports whether the entry is a request, not a change of state.
func (e Entry) IsRequest() bool { return e.Method != "" }

// String is the entry without its time, on one line.
func (e Entry) String() string {
	var b strings.Builder
	if e.IsRequest() {
		status := strconv.Itoa(e.Status)
		if e.Status == 0 {
			status = "cut"
		}
		fmt.Fprintf(&b, "%s %s → %s", e.Method, e.Path, status)
		appendIf(&b, " ", e.Code)
		appendIf(&b, " fault=", e.Fault)
		appendIf(&b, " violation: ", e.Violation)
		return b.String()
	}
	fmt.Fprintf(&b, "  %s", e.Object)
	appendIf(&b, " ", e.ID)
	b.WriteString(":")
	appendIf(&b, " ", e.From)
	if e.From != "" {
		b.WriteString(" →")
	}
	appendIf(&b, " ", e.To)
	appendIf(&b, " ", e.Detail)
	return b.String()
}

func appendIf(b *strings.Builder, before, text string) {
	if text != "" {
		b.WriteString(before)
		b.WriteString(text)
	}
}

// line is the entry with its time.
func (e Entry) line() string { return e.Time.Format("15:04:05.000 ") + e.String() + "\n" }

type journal struct {
	mu      sync.Mutex
	entries []Entry
	to      io.Writer
}

// record appends entries. An entry without a time gets the present time. It may be called with or without mu.
func (p *Portal) record(entries ...Entry) {
	p.journal.mu.Lock()
	defer p.journal.mu.Unlock()
	for _, e := range entries {
		if e.Time.IsZero() {
			e.Time = time.Now()
		}
		p.journal.entries = append(p.journal.entries, e)
		if p.journal.to != nil {
			_, _ = io.WriteString(p.journal.to, e.line()) // a journal that cannot be copied must not stop the portal
		}
	}
}

// Journal returns all requests and changes of state so far, in order.
func (p *Portal) Journal() []Entry {
	p.journal.mu.Lock()
	defer p.journal.mu.Unlock()
	return slices.Clone(p.journal.entries)
}

// JournalFrom returns the requests and changes of state so far without the first n. It returns none if there are no more than n.
func (p *Portal) JournalFrom(n int) []Entry {
	p.journal.mu.Lock()
	defer p.journal.mu.Unlock()
	return slices.Clone(p.journal.entries[min(max(n, 0), len(p.journal.entries)):])
}

// Violations returns the requests that the specification does not allow: unknown endpoints, methods and parameters,
// missing parameters, wrong content types, plain HTTP. A correct client causes none.
func (p *Portal) Violations() []Entry {
	return slices.DeleteFunc(p.Journal(), func(e Entry) bool { return e.Violation == "" })
}

// WriteJournal writes the journal as text, one line per entry.
func (p *Portal) WriteJournal(w io.Writer) error {
	for _, e := range p.Journal() {
		if _, err := io.WriteString(w, e.line()); err != nil {
			return err
		}
	}
	return nil
}
