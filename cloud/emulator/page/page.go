// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

//go:embed static
var embedded embed.FS

// Options say what the page shows, and which actions it offers.
type Options struct {
	// Portal is shown. Nil: the page shows what Kubernetes knows, as far as that can be had without a portal, and offers no changes.
	Portal *emulator.Portal
	// Title is the heading of the page. The default is Portal emulator.
	Title string
	// Kubernetes reads what the management cluster and the workload clusters know. Nil: the page shows the portal alone.
	Kubernetes func(context.Context) (Kubernetes, error)
	// Every is the shortest time between two readings of the state. The default is 250 ms, which is what a person can follow.
	Every time.Duration
	// Act runs the command of an Action that Kubernetes offers, and returns its output. Nil: no action can be taken.
	Act func(ctx context.Context, command string) (string, error)
	// Step returns the present step of a demonstration, or nil. Nil: this is no demonstration.
	Step func() *Step
	// ReadOnly refuses faults, changes of the removal order, and actions.
	ReadOnly bool
}

// page serves one picture.
type page struct {
	Options
	streams chan struct{} // a place for each open stream

	mu      sync.Mutex // guards the fields below, and is held while the state is read
	state   []byte     // as JSON
	stateAt time.Time
	history history
}

func newPage(options Options) *page {
	options.Title, options.Every = cmp.Or(options.Title, "Portal emulator"), cmp.Or(options.Every, interval)
	return &page{Options: options, streams: make(chan struct{}, maxStreams)}
}

// Handler serves the page. Requests must come from this machine: [Listen] sees to that, and so must every other server.
func Handler(options Options) http.Handler { return newPage(options).handler() }

func (p *page) handler() http.Handler {
	static, err := fs.Sub(embedded, "static")
	if err != nil {
		panic("the name of an embedded folder is valid: " + err.Error())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(static))
	mux.HandleFunc("GET /snapshot", p.snapshot)
	mux.HandleFunc("GET /events", p.events)
	if p.Portal == nil {
		return guarded(mux)
	}
	admin := p.changing(p.Portal.AdminHandler())
	for _, change := range []string{"POST /faults", "DELETE /faults", "DELETE /faults/{id}", "PUT /victim-order", "POST /clusters/{id}/repair"} {
		mux.Handle(change, admin)
	}
	mux.Handle("POST /actions", p.changing(http.HandlerFunc(p.act)))
	return guarded(mux)
}

// snapshot answers GET /snapshot.
func (p *page) snapshot(w http.ResponseWriter, r *http.Request) {
	state, err := p.current(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	entries, _ := p.logFrom(0)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct { // a reader who has gone needs no answer
		State json.RawMessage     `json:"state"`
		Log   []emulator.LogEntry `json:"log"`
	}{state, entries})
}

// Server is a page that is being served.
type Server struct {
	// URL returns the page's address for a browser.
	URL string

	server *http.Server
	cancel context.CancelFunc
	work   sync.WaitGroup
}

// Listen serves the page on a loopback address, such as 127.0.0.1:0, in the background until Close.
func Listen(ctx context.Context, address string, options Options) (*Server, error) {
	p := newPage(options)
	return serve(ctx, address, p.handler(), p.watch)
}

// serve serves a page on a loopback address in the background, and does other work until Close.
func serve(ctx context.Context, address string, handler http.Handler, work func(context.Context)) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("the page must be on a loopback address, not %s", listener.Addr()), listener.Close())
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{URL: "http://" + listener.Addr().String() + "/", cancel: cancel}
	s.server = &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		ErrorLog:          log.New(io.Discard, "", 0), // a browser that goes away is no concern of the operator
	}
	s.work.Go(func() { _ = s.server.Serve(listener) }) // it ends with Close
	s.work.Go(func() { work(base) })
	return s, nil
}

// Close ends the streams and stops serving. It may be called on nil.
func (s *Server) Close() error {
	if s == nil {
		return nil
	}
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	err := s.server.Shutdown(ctx)
	s.work.Wait()
	return err
}
