// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// maxBody bounds an answer, in bytes. The largest known is the list of all instances of an account.
const maxBody = 8 << 20

var (
	errReadTimeout = errors.New("no answer within the read timeout")
	errTooLarge    = fmt.Errorf("answer larger than %d bytes", maxBody)
)

// exchange is the bottom of the chain: one HTTP request, its answer read to the end within the timeouts and bounds.
// It follows no redirect, keeps no cookie and knows whether anything was written.
type exchange struct {
	base      *url.URL
	userAgent string
	mutations http.RoundTripper
	others    http.RoundTripper
}

func (x *exchange) do(ctx context.Context, c *call) (*answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	transport := x.others
	if c.route.mutating {
		transport = x.mutations
	}
	watch := newWatch(c, transport, cancel)
	defer watch.timer.Stop()
	if err := ctx.Err(); err != nil {
		return nil, unanswered(c, err)
	}
	req := x.request(httptrace.WithClientTrace(ctx, watch.trace()), c)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		c.sent = watch.mayHaveSent(err)
		return nil, unanswered(c, firstCause(ctx, err))
	}
	defer func() { _ = resp.Body.Close() }()
	c.sent = true
	body, err := readBounded(resp.Body)
	a := &answer{status: resp.StatusCode, header: resp.Header, body: body, at: time.Now()}
	if err != nil && a.ok() { // a refusal stays one, even when its body was cut
		return nil, unanswered(c, firstCause(ctx, err))
	}
	return a, nil
}

// request writes the HTTP request. GetBody stays nil and there is never an Idempotency-Key: with either, net/http
// may send a POST again by itself.
func (x *exchange) request(ctx context.Context, c *call) *http.Request {
	u := *x.base
	u.RawPath = x.base.EscapedPath() + c.path
	u.Path, _ = url.PathUnescape(u.RawPath) // made of escaped parts, so it cannot fail
	u.RawQuery = c.query.Encode()
	req := (&http.Request{
		Method: c.route.method,
		URL:    &u,
		Host:   u.Host,
		Header: http.Header{"Accept": {"application/json"}, "User-Agent": {x.userAgent}},
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if c.body != nil {
		req.Body = io.NopCloser(bytes.NewReader(c.body))
		req.ContentLength = int64(len(c.body))
		req.Header.Set("Content-Type", "application/json")
	}
	if token := c.token.reveal(); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req
}

func (x *exchange) close() {
	for _, t := range []http.RoundTripper{x.mutations, x.others} {
		if t, ok := t.(interface{ CloseIdleConnections() }); ok {
			t.CloseIdleConnections()
		}
	}
}

// readBounded reads the body, unless it is larger than any answer can be.
func readBounded(body io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	if err == nil && len(raw) > maxBody {
		err = errTooLarge
	}
	return raw, err
}

// firstCause prefers why the context ended over what net/http made of it.
func firstCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// watch follows one request: it ends it when the portal does not answer in time, and knows how far it came.
type watch struct {
	read    time.Duration
	timer   *time.Timer
	reports bool        // the transport reports its steps
	written atomic.Bool // headers complete: the portal may act on it
}

func newWatch(c *call, transport http.RoundTripper, cancel context.CancelCauseFunc) *watch {
	_, reports := transport.(*http.Transport)
	w := &watch{read: readTimeout, reports: reports}
	switch c.route.class {
	case ratelimit.Poll:
		w.read = pollTimeout
	case ratelimit.Creation:
		w.read = createTimeout
	}
	w.timer = time.AfterFunc(w.read, func() { cancel(errReadTimeout) })
	return w
}

func (w *watch) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn:      func(string) { w.timer.Reset(2 * connectTimeout) }, // one each for dial and TLS handshake
		GotConn:      func(httptrace.GotConnInfo) { w.timer.Reset(w.read) },
		WroteHeaders: func() { w.written.Store(true) },
	}
}

// mayHaveSent reports whether the failed request may have reached the portal. A transport that does not report its
// steps gets the benefit of the doubt only for failures that come before writing by their nature.
func (w *watch) mayHaveSent(err error) bool {
	if w.reports {
		return w.written.Load()
	}
	return !isBeforeWriting(err)
}
