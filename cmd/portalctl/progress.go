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
	out     io.Writer
	live    bool
	label   string
	started time.Time

	text   string
	toldAt time.Time
}

// show shows the present state.
func (p *progress) show(text string) {
	now := time.Now()
	if p.live {
		p.text = text
		p.draw("\r\x1b[K", "")
		return
	}
	if text == p.text && now.Sub(p.toldAt) < heartbeat {
		return
	}
	p.text, p.toldAt = text, now
	p.draw("", "\n")
}

func (p *progress) draw(before, after string) {
	elapsed := time.Since(p.started).Round(time.Second)
	_, _ = fmt.Fprintf(p.out, "%s%s: %s, %s%s", before, p.label, p.text, elapsed, after) // only a display
}

// rest waits, redrawing, until a time or the context's end.
func (p *progress) rest(ctx context.Context, until time.Time) error {
	for {
		left := time.Until(until)
		if left <= 0 {
			return ctx.Err()
		}
		if p.live {
			left = min(left, time.Second)
		}
		if err := rest(ctx, time.Now().Add(left)); err != nil {
			return err
		}
		if p.live {
			p.show(p.text)
		}
	}
}

// end keeps the last line.
func (p *progress) end() {
	if p.live {
		_, _ = fmt.Fprintln(p.out)
	}
}

// rest waits until a time or the context's end.
func rest(ctx context.Context, until time.Time) error {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
