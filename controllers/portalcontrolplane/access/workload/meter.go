// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
)

const (
	// maxAnswer is the largest answer that is read, unless it is a list of Nodes.
	maxAnswer = 8 << 20
	// MaxNodeList is the largest list of Nodes that is read. A Node of a real kubelet, which reports 50 images, takes 19 kB. So 500
	// Nodes take 9.5 MB, and 880 fit.
	MaxNodeList = 16 << 20
	// maxEvent is the largest event of a watch. A Node of a real kubelet takes 10 kB.
	maxEvent = 256 << 10
	// MaxObjects is how many objects a list may hold. An empty object has 3 bytes, and takes 1 kB decoded. Pods are listed in pages
	// of 500.
	MaxObjects = 1000
	// maxValues is how many values an answer may hold in all. An empty value has 3 bytes, and takes 100 decoded. A Node of a real
	// kubelet has 320.
	maxValues = 300_000
)

var errTooLarge = errors.New("the answer of the API server is too large")

// meter reads the body of an answer within the limits. It understands just enough JSON to count the values.
type meter struct {
	io.ReadCloser
	ctx       context.Context //nolint:containedctx // of the request: a body is read without one
	transport *transport
	watch     bool // each value is an event, of which the client keeps none
	list      bool // of objects
	nodes     bool // of Nodes

	held            int // bytes that count against the namespace
	bytes           int // of the current value, like the others
	objects, values int
	depth           int
	quoted, escaped bool
}

func (t *transport) meter(answer *http.Response) *meter {
	request := answer.Request
	return &meter{
		ReadCloser: answer.Body, ctx: request.Context(), transport: t,
		watch: request.URL.Query().Get("watch") != "" && answer.StatusCode == http.StatusOK,
		list:  request.Method == http.MethodGet && strings.Contains(request.URL.Path, "/api"),
		nodes: listsNodes(request),
	}
}

func listsNodes(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/api/v1/nodes")
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	if m.exceeded() {
		return 0, errTooLarge // client-go reads on
	}
	n, err := m.ReadCloser.Read(p)
	if !m.watch {
		m.held += n
		if !m.transport.tenant.hold(n) {
			return 0, errTooLarge
		}
	}
	if problem := m.count(p[:n]); problem != nil {
		return 0, problem
	}
	if err == io.EOF && m.nodes && !m.watch {
		m.transport.oversized.Store(false)
	}
	return n, err
}

// Close implements io.Closer.
func (m *meter) Close() error {
	m.transport.tenant.release(m.held)
	m.held = 0
	return m.ReadCloser.Close()
}

// count counts what was read, and returns an error if it is too much.
func (m *meter) count(read []byte) error {
	for _, b := range read {
		ended := m.next(b)
		if m.exceeded() {
			m.transport.oversized.Store(m.nodes || m.transport.oversized.Load())
			return errTooLarge
		}
		if ended && m.watch {
			if err := m.transport.tenant.event(m.ctx, m.bytes); err != nil {
				return err
			}
			m.bytes, m.objects, m.values = 0, 0, 0
		}
	}
	return nil
}

// next counts one byte, and reports whether it ends a top-level value.
func (m *meter) next(b byte) (ended bool) {
	m.bytes++
	switch {
	case m.escaped:
		m.escaped = false
	case m.quoted:
		m.escaped, m.quoted = b == '\\', b != '"'
	case b == '"':
		m.quoted = true
	case b == '{', b == '[':
		m.depth++
	case b == '}', b == ']':
		m.depth--
		return m.depth == 0
	case b == ',':
		m.values++
		if m.depth == 2 { // between the elements of a list's items
			m.objects++
		}
	}
	return false
}

func (m *meter) exceeded() bool {
	limit := maxAnswer
	switch {
	case m.watch:
		limit = maxEvent
	case m.nodes:
		limit = MaxNodeList
	}
	return m.bytes > limit || m.values > maxValues || m.list && m.objects > MaxObjects
}
