// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// options of a run.
type options struct {
	clusters, neighbours int
	coreUpTo             int
	takes                time.Duration
	spread               float64
	idle, limit          time.Duration
	storm                bool
	restart, handOver    bool
	dir, markdown        string
}

func main() {
	var o options
	flag.IntVar(&o.clusters, "n", 300, "`number` of clusters that one tenant creates at once")
	flag.IntVar(&o.neighbours, "neighbours", 10, "`number` of clusters that a second tenant on the same account has from before")
	flag.IntVar(&o.coreUpTo, "core-up-to", 50, "largest `number` of clusters to measure with real core")
	flag.DurationVar(&o.takes, "takes", 2*time.Minute, "how long the portal takes to create a cluster")
	flag.Float64Var(&o.spread, "spread", 0.2, "part of that time by which a job takes more or less")
	flag.DurationVar(&o.idle, "idle", time.Minute, "how long to watch the manager when nothing is to be done")
	flag.DurationVar(&o.limit, "limit", time.Hour, "when to give up")
	flag.BoolVar(&o.storm, "storm", true, "measure the creation of the clusters; without it only the restart is measured, with that many jobs")
	flag.BoolVar(&o.restart, "restart", true, "also kill the manager while as many jobs run on another account")
	flag.BoolVar(&o.handOver, "hand-over", true, "also end the manager while a second one waits for its lease")
	flag.StringVar(&o.dir, "dir", "", "empty `directory` for logs, which stay; none stay without it")
	flag.StringVar(&o.markdown, "markdown", "", "`file` that receives the table, too")
	flag.Parse()
	log.SetLogger(logr.Discard())
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func (o options) run() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	b.report.title = fmt.Sprintf("%d clusters, jobs of %v ± %.0f %%, %s", b.clusters, b.takes, 100*b.spread, b.coreWords())
	parts := []func(context.Context) error{b.settleNeighbours, b.measureStorm, b.measureIdle, b.measureHandOver, b.measureRestart}
	if !o.storm {
		parts = []func(context.Context) error{b.settleNeighbours, b.measureRestart}
	}
	for _, measure := range parts {
		if err := measure(ctx); err != nil {
			return errors.Join(err, b.report.write(o.markdown)) // keep the measurements so far
		}
	}
	return b.report.write(o.markdown)
}

// say prints a message with the time since the start.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}
