// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// report is the table of results, in Markdown.
type report struct {
	title string
	rows  [][3]string
}

func (r *report) add(what, measured, beside string) {
	r.rows = append(r.rows, [3]string{what, measured, beside})
	fmt.Fprintf(os.Stderr, "        %s: %s (%s)\n", what, measured, beside)
}

func (r *report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n\n| figure | measured | beside it |\n|---|---|---|\n", r.title)
	for _, row := range r.rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row[:], " | "))
	}
	return b.String()
}

// write prints the table, and writes it to the file if path is not empty.
func (r *report) write(path string) error {
	if len(r.rows) == 0 {
		return nil
	}
	fmt.Print("\n" + r.String())
	if path == "" {
		return nil
	}
	return os.WriteFile(path, []byte(r.String()), 0o600)
}

func (b *bench) coreWords() string {
	if b.realCore() {
		return "real core"
	}
	return "a stand-in for core"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func quantiles(all []time.Duration) string {
	return fmt.Sprintf("p50 %s, p99 %s", seconds(quantile(all, 0.5)), seconds(quantile(all, 0.99)))
}

// times formats a duration, and how many times the bound it is.
func times(took, bound time.Duration) string {
	if bound == 0 {
		return seconds(took)
	}
	return fmt.Sprintf("%s = %.2f × the bound", seconds(took), took.Seconds()/bound.Seconds())
}

// bounds formats both bounds: for an account that also serves the second tenant, and for one that does not.
func bounds(ideal, alone time.Duration) string {
	return fmt.Sprintf("bound %s, %s without the second tenant's scales", seconds(ideal), seconds(alone))
}

func usageWords(u usage) string {
	return fmt.Sprintf("%.0f MiB, %.0f goroutines", u.memory/(1<<20), u.goroutines)
}

// per100 formats the manager's size per 100 clusters.
func (b *bench) per100(u usage) string {
	share := 100 / float64(b.clusters+b.neighbours)
	return fmt.Sprintf("%.0f MiB, %.0f goroutines per 100 clusters", share*u.memory/(1<<20), share*u.goroutines)
}

// perCluster lists the counts per cluster, largest first. Counts below a tenth are added up.
func perCluster(counts map[string]int, clusters int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var parts []string
	rest := 0
	for _, name := range names {
		each := float64(counts[name]) / float64(clusters)
		if each < 0.1 {
			rest += counts[name]
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %.1f", name, each))
	}
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("others %.1f", float64(rest)/float64(clusters)))
	}
	return strings.Join(parts, ", ")
}
