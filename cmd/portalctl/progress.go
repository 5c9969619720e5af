// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// heartbeat is how often progress reports, without a terminal, that nothing has changed.
const heartbeat = time.Minute

// progress shows how a job goes on: a line that is redrawn every second on a terminal, otherwise a line for each
// change and for each minute without one.
type progress struct {
	out        io.Writer
	isTerminal bool
	label      string
	started    time.Time

	text    string
	shownAt time.Time
}

// show shows the present state.
func (p *progress) show(text string) {
	now := time.Now()
	if p.isTerminal {
		p.text = text
		p.draw("\r\x1b[K", "")
		return
	}
	if text == p.text && now.Sub(p.shownAt) < heartbeat {
		return
	}
	p.text, p.shownAt = text, now
	p.draw("", "\n")
}

func (p *progress) draw(before, after string) {
	elapsed := time.Since(p.started).Round(time.Second)
	_, _ = fmt.Fprintf(p.out, "%s%s: %s, %s%s", before, p.label, p.text, elapsed, after) // only a display
}

// waitUntil waits, redrawing, until a time or the context's end.
func (p *progress) waitUntil(ctx context.Context, until time.Time) error {
	for {
		left := time.Until(until)
		if left <= 0 {
			return ctx.Err()
		}
		if p.isTerminal {
			left = min(left, time.Second)
		}
		if err := waitUntil(ctx, time.Now().Add(left)); err != nil {
			return err
		}
		if p.isTerminal {
			p.show(p.text)
		}
	}
}

// end keeps the last line.
func (p *progress) end() {
	if p.isTerminal {
		_, _ = fmt.Fprintln(p.out)
	}
}

// waitUntil waits until a time or the context's end. A context that ends at the same time ends first.
func waitUntil(ctx context.Context, until time.Time) error {
	if end, ends := ctx.Deadline(); ends && !end.After(until) {
		<-ctx.Done()
		return ctx.Err()
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
