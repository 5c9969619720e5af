// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// step is an action of a user, with the state to wait for.
type step struct {
	name    string
	waits   string // what the step waits for, in words
	act     func(context.Context) error
	missing func(context.Context) (string, error) // what is missing; empty when the step is done
	after   func(context.Context) error           // what to print and check at the end; may be nil
	show    bool                                  // run clusterctl describe at the end
}

// run runs the step and waits for its end. It prints what is missing whenever that changes.
func (d *demo) run(ctx context.Context, step step) error {
	say(d.out, "%s", step.name)
	begin := time.Now()
	if err := step.act(ctx); err != nil {
		return err
	}
	indent(d.out, "waiting for: "+step.waits)
	ctx, cancel := context.WithTimeout(ctx, d.longest)
	defer cancel()
	var shown string
	for {
		missing, err := step.missing(ctx)
		if err != nil {
			return err
		}
		if missing == "" {
			break
		}
		if missing != shown {
			indent(d.out, fmt.Sprintf("%5.1f s  %s", time.Since(begin).Seconds(), missing))
			shown = missing
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w while waiting: %s", context.Cause(ctx), missing)
		case <-time.After(200 * time.Millisecond):
		}
	}
	indent(d.out, fmt.Sprintf("%5.1f s  done", time.Since(begin).Seconds()))
	d.took.record(step.name, begin)
	if step.after != nil {
		if err := step.after(ctx); err != nil {
			return err
		}
	}
	if step.show {
		d.describe(ctx, "!")
	}
	return nil
}

// describe prints the output of clusterctl describe with the given conditions.
func (d *demo) describe(ctx context.Context, conditions string) {
	arguments := []string{"describe", "cluster", clusterName, "--namespace", d.Identity.Namespace}
	if conditions == "all" {
		arguments = append(arguments, "--show-conditions", "all")
	}
	output, err := d.command(ctx, d.Binary("clusterctl"), arguments...).CombinedOutput()
	if err != nil {
		output = fmt.Appendf(output, "clusterctl describe cluster: %v", err)
	}
	indent(d.out, string(output))
}

// explain prints the state of a failed step.
func (d *demo) explain(ctx context.Context) {
	say(d.out, "The conditions that explain it")
	d.describe(ctx, "all")
	d.Keep()
	indent(d.out, "Logs are in "+d.Dir)
}

// say prints a heading.
func say(out io.Writer, format string, arguments ...any) {
	_, _ = fmt.Fprintf(out, "\n==> "+format+"\n", arguments...)
}

// indent prints lines that belong to the heading before them.
func indent(out io.Writer, text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		_, _ = fmt.Fprintf(out, "    %s\n", strings.TrimRight(line, " \n"))
	}
}
