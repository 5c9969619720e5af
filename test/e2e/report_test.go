// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"
)

// report holds the results of the specs in the order in which they ended.
type report struct {
	mu    sync.Mutex
	lines []line
}

type line struct {
	spec   string
	took   time.Duration
	failed bool
}

func (r *report) add(spec string, took time.Duration, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line{spec, took, failed})
}

func (r *report) print(out io.Writer, total time.Duration) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "\nSPEC\tRESULT\tSECONDS")
	failed := 0
	for _, l := range r.lines {
		result := "ok"
		if l.failed {
			result = "FAILED"
			failed++
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%.1f\n", l.spec, result, l.took.Seconds())
	}
	_, _ = fmt.Fprintf(table, "%d specs, %d failed, with all that is around them\t\t%.1f\n\n", len(r.lines), failed, total.Seconds())
	_ = table.Flush()
}
