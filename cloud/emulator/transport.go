// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// Handler serves the portal's API. Its server must use TLS.
func (p *Portal) Handler() http.Handler { return p }

// Transport serves requests in-process: no socket, no TLS handshake, no time but package time's, so that it works in
// a testing/synctest bubble. Any https URL will do, since the host is ignored. As over a network, the work is done
// even if the caller does not wait for it.
func (p *Portal) Transport() http.RoundTripper { return inProcess{p} }

type inProcess struct{ portal *Portal }

// RoundTrip implements http.RoundTripper.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	arriving := r.Clone(t.portal.ctx)
	arriving.Body = io.NopCloser(bytes.NewReader(body))
	arriving.RequestURI = r.URL.RequestURI()
	if r.URL.Scheme == "https" {
		arriving.TLS = inProcessTLS
	}
	out := &recorder{header: http.Header{}, done: make(chan struct{})}
	go out.serve(t.portal, arriving)
	select {
	case <-out.done:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return out.response(r)
}

// recorder keeps what a handler writes.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
	cut    bool
	done   chan struct{}
}

func (w *recorder) serve(p *Portal, r *http.Request) {
	defer close(w.done)
	defer func() {
		switch reason := recover(); reason {
		case nil:
		case http.ErrAbortHandler:
			w.cut = true
		default:
			panic(reason)
		}
	}()
	p.ServeHTTP(w, r)
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }

// FlushError implements what http.ResponseController looks for.
func (w *recorder) FlushError() error { return nil }

// response is what a client would have read from a connection.
func (w *recorder) response(r *http.Request) (*http.Response, error) {
	if w.cut && w.status == 0 {
		return nil, fmt.Errorf("the connection ended before an answer: %w", io.ErrUnexpectedEOF)
	}
	body := io.Reader(&w.body)
	if w.cut {
		body = io.MultiReader(body, interrupted{})
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(body), ContentLength: contentLength(w.header), Request: r, TLS: inProcessTLS,
	}, nil
}

// interrupted is the end of a connection in the middle of a body.
type interrupted struct{}

func (interrupted) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
