// SPDX-License-Identifier: Apache-2.0

package world

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

var errCrashed = errors.New("this manager has crashed")

// fence stands between a manager and all that it writes to: both kinds of API servers, and the portal. A manager that has crashed reads and
// writes nothing more.
type fence struct {
	dead   atomic.Bool
	writes atomic.Int64
	// crash is asked before and after each write, with its number from 1 on. True ends the manager there. After a write, its answer is lost.
	crash func(write int64, after bool) bool
	// pause is how long the manager is held up before a write, so that others act in between.
	pause func() time.Duration
	// died is called once with the write.
	died func(r *http.Request, write int64, after bool)
	// wrote is called with each write that was answered.
	wrote func(r *http.Request, status int)
}

func isWrite(r *http.Request) bool { return r.Method != http.MethodGet && r.URL.Path != "/login" }

// fenced puts the fence before a transport.
type fenced struct {
	*fence
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f fenced) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.dead.Load() {
		return nil, errCrashed
	}
	if !isWrite(r) {
		response, err := f.next.RoundTrip(r)
		if f.dead.Load() {
			return nil, errCrashed
		}
		return response, err
	}
	if f.pause != nil {
		time.Sleep(f.pause())
	}
	n := f.writes.Add(1)
	if f.dies(r, n, false) {
		return nil, errCrashed
	}
	response, err := f.next.RoundTrip(r)
	if f.dies(r, n, true) {
		return nil, errCrashed
	}
	if err == nil && f.wrote != nil {
		f.wrote(r, response.StatusCode)
	}
	return response, err
}

// dies reports whether the manager has crashed, or crashes here.
func (f *fence) dies(r *http.Request, n int64, after bool) bool {
	if !f.dead.Load() && f.crash != nil && f.crash(n, after) && !f.dead.Swap(true) {
		f.died(r, n, after)
	}
	return f.dead.Load()
}
