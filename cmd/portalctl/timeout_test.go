// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestTimeout: no wait of a command lasts longer than its timeout, whatever the command waits for: a job, the login, or a rate limit that
// closes for twenty minutes. Before a request is sent, nothing was changed, and afterwards the job runs on.
func TestTimeout(t *testing.T) {
	scale := func(cluster, _ string) []string { return []string{"clusters", "scale", cluster, "--size", "3"} }
	wait := func(_, job string) []string { return []string{"jobs", "wait", job} }
	lookup := func(_, _ string) []string { return []string{"vpcs", "create", "--name", "prod"} }
	for name, test := range map[string]struct {
		path string
		nth  int // request that is refused
		runs bool
		args func(cluster, job string) []string
		code exitCode
		says string
	}{
		"at the login":         {"/login", 1, false, scale, exitLater, "nothing was changed"},
		"before the request":   {"/kubernetes-clusters/*/scale", 1, false, scale, exitLater, "nothing was changed"},
		"before a lookup":      {"/vpcs", 1, false, lookup, exitLater, "nothing was changed"},
		"after the first look": {"/jobs/*", 1, false, scale, exitStillRuns, "is still pending after 1m0s and runs on"},
		"at the first look":    {"/jobs/*", 1, true, wait, exitLater, "nothing was changed"},
		"after some looks":     {"/jobs/*", 3, true, wait, exitStillRuns, "is still running after 1m0s and runs on"},
		"while the job runs":   {"", 0, true, wait, exitStillRuns, "is still running after 1m0s and runs on"},
	} {
		t.Run(name, func(t *testing.T) {
			at(t, emulator.Options{Durations: emulator.Durations{Scale: time.Hour}}, func(t *testing.T, d *desk) {
				cluster, job := d.create("demo"), ""
				if test.runs {
					job = strings.TrimSpace(d.run("clusters", "scale", cluster, "--size", "3", "--no-wait").exits(exitOK).out)
					time.Sleep(10 * time.Second)
				}
				if test.path != "" {
					d.inject(emulator.Fault{Path: test.path, Nth: test.nth, Count: 1, Status: 429, RetryAfter: 20 * time.Minute})
				}
				r := d.run(append(test.args(cluster, job), "--timeout", "1m")...).exits(test.code).says(test.says)
				if r.took > time.Minute+time.Second {
					t.Errorf("took %s", r.took)
				}
				if test.path != "" {
					r.says("The portal asks to wait 20m0s, until 2000-01-01T00:2")
				}
				time.Sleep(2 * time.Hour) // until the job has ended
			})
		})
	}
	at(t, emulator.Options{}, func(_ *testing.T, d *desk) {
		d.run("jobs", "wait", "job-1", "--timeout", "-1s").exits(exitUsage).says("must not be negative")
	})
}
