// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// LogEntry is one line of the request log: a request, or a change of state that it led to. No entry holds a secret: bodies,
// tokens, kubeconfigs and reset links are never recorded.
type LogEntry struct {
	Time    time.Time `json:"time"` // of the request's arrival, or of the change, by the machine's clock
	Account string    `json:"account,omitempty"`

	// Of a request.
	RequestID string `json:"requestId,omitempty"`
	User      string `json:"user,omitempty"`   // id
	Method    string `json:"method,omitempty"` // empty for changes of state
	Route     string `json:"route,omitempty"`  // the endpoint's path template. Empty if no such endpoint exists
	Path      string `json:"path,omitempty"`   // as requested, without query
	Status    int    `json:"status,omitempty"` // 0: the connection was cut
	Code      string `json:"code,omitempty"`   // of an error
	Fault     string `json:"fault,omitempty"`  // ids of the faults that affected it
	Violation string `json:"violation,omitempty"`

	// Of a change of state.
	Object string `json:"object,omitempty"` // job, cluster, node, network, vpc, volume, token, fault, portal
	ID     string `json:"id,omitempty"`     // of the object. For a node, its name
	From   string `json:"from,omitempty"`
	To     string `json:"to,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Removal is set if a node is removed whose machine Kubernetes had seen, except when its cluster is deleted.
	Removal *Removal `json:"removal,omitempty"`
}

// IsRequest reports whether the entry is a request, not a change of state.
func (e LogEntry) IsRequest() bool { return e.Method != "" }

// IsChange reports whether the entry is a request, accepted or not, that changes something at the portal. A login does not count.
func (e LogEntry) IsChange() bool {
	return e.IsRequest() && e.Method != http.MethodGet && e.Route != "/login"
}

// ClusterChanges returns the operations on clusters that the entries show, in order, such as "Scaling size 1 → 2".
func ClusterChanges(entries []LogEntry) (all []string) {
	for _, e := range entries {
		if e.Object != "cluster" {
			continue
		}
		switch state := ClusterState(e.To); state {
		case ClusterScaling, ClusterUpgrading:
			all = append(all, e.To+" "+e.Detail)
		case ClusterCreating, ClusterDeleting, ClusterFailed, ClusterAlert:
			all = append(all, e.To)
		case ClusterRunning: // the end of an operation
		}
	}
	return all
}

// String is the entry without its time, on one line.
func (e LogEntry) String() string { return oneLine(e.text()) }

// oneLine escapes control characters: paths, names and e-mail addresses come from callers, who could forge entries with a line break.
func oneLine(text string) string {
	if !strings.ContainsFunc(text, unicode.IsControl) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, "%%%02X", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (e LogEntry) text() string {
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
func (e LogEntry) line() string { return e.Time.Format("15:04:05.000 ") + e.String() + "\n" }

type requestLog struct {
	mu        sync.Mutex
	entries   []LogEntry
	forgotten int // entries that are no longer kept
	size      int // Options.RequestLogSize
	to        io.Writer
}

// record appends entries. An entry without a time gets the current time. It may be called with or without mu.
func (p *Portal) record(entries ...LogEntry) {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	for _, e := range entries {
		if e.Time.IsZero() {
			e.Time = time.Now()
		}
		p.log.entries = append(p.log.entries, e)
		if p.log.to != nil {
			_, _ = io.WriteString(p.log.to, e.line()) // a request log that cannot be copied must not stop the portal
		}
	}
	if surplus := len(p.log.entries) - p.log.size; p.log.size > 0 && surplus > p.log.size {
		p.log.entries, p.log.forgotten = slices.Clone(p.log.entries[surplus:]), p.log.forgotten+surplus
	}
}

// RequestLog returns the requests and changes of state so far, in order, as far as they are kept (Options.RequestLogSize).
func (p *Portal) RequestLog() []LogEntry {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return slices.Clone(p.log.entries)
}

// RequestLogFrom returns the requests and changes of state so far without the first n, as far as they are kept, and how many there were in
// all. It returns none if there were no more than n.
func (p *Portal) RequestLogFrom(n int) (entries []LogEntry, all int) {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	first := min(max(n-p.log.forgotten, 0), len(p.log.entries))
	return slices.Clone(p.log.entries[first:]), p.log.forgotten + len(p.log.entries)
}

// Violations returns the requests that the specification does not allow: unknown endpoints, methods and parameters,
// missing parameters, wrong content types, plain HTTP. A correct client causes none.
func (p *Portal) Violations() []LogEntry {
	return slices.DeleteFunc(p.RequestLog(), func(e LogEntry) bool { return e.Violation == "" })
}

// WriteRequestLog writes the request log as text, one line per entry.
func (p *Portal) WriteRequestLog(w io.Writer) error {
	for _, e := range p.RequestLog() {
		if _, err := io.WriteString(w, e.line()); err != nil {
			return err
		}
	}
	return nil
}
