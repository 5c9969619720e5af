// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestTimeout: no wait of a command lasts longer than its timeout, whatever the command waits for: a job, the login, or a rate limit that
// closes for twenty minutes. Before a request is sent, nothing was changed, and afterwards the job runs on.
func TestTimeout(t *testing.T) {
	scale, wait := []string{"clusters", "scale", "cluster", "--size", "3"}, []string{"jobs", "wait", "job"}
	for name, test := range map[string]struct {
		path string
		nth  int // request that is refused
		args []string
		code exitCode
		says string
	}{
		"at the login":         {"/login", 1, scale, exitLater, "nothing was changed"},
		"before the request":   {"/kubernetes-clusters/*/scale", 1, scale, exitLater, "nothing was changed"},
		"before a lookup":      {"/vpcs", 1, []string{"vpcs", "create", "--name", "prod"}, exitLater, "nothing was changed"},
		"after the first look": {"/jobs/*", 1, scale, exitStillRuns, "is still pending after 1m0s and runs on"},
		"at the first look":    {"/jobs/*", 1, wait, exitLater, "nothing was changed"},
		"after some looks":     {"/jobs/*", 3, wait, exitStillRuns, "is still running after 1m0s and runs on"},
		"while the job runs":   {"", 0, wait, exitStillRuns, "is still running after 1m0s and runs on"},
	} {
		t.Run(name, func(t *testing.T) {
			at(t, emulator.Options{Durations: emulator.Durations{Scale: time.Hour}}, func(t *testing.T, d *desk) {
				d.run(d.createArgs("demo")...).exits(exitOK)
				cluster := d.portal.Clusters()[0].ID
				if test.args[0] == "jobs" {
					d.run("clusters", "scale", cluster, "--size", "3", "--no-wait").exits(exitOK)
					time.Sleep(10 * time.Second)
				}
				jobs := d.portal.Jobs()
				args := slices.Clone(test.args)
				args[2] = map[string]string{"cluster": cluster, "job": jobs[len(jobs)-1].ID}[args[2]]
				if args[2] == "" {
					args[2] = test.args[2]
				}
				if test.path != "" {
					d.inject(emulator.Fault{Path: test.path, Nth: test.nth, Count: 1, Status: 429, RetryAfter: 20 * time.Minute})
				}
				began := time.Now()
				r := d.run(append(args, "--timeout", "1m")...).exits(test.code).says(test.says)
				if took := time.Since(began); took > time.Minute+time.Second {
					t.Errorf("took %s", took)
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

// TestInterruptBetweenRefusals: a change that the rate limit has refused was not carried out, so Ctrl-C ends the wait for the next turn.
func TestInterruptBetweenRefusals(t *testing.T) {
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		d.inject(emulator.Fault{Path: "/volumes/*", Status: 429, RetryAfter: 50 * time.Minute, Count: 1})
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, interrupt)
		began := time.Now()
		d.runWithin(ctx, "volumes", "delete", "--yes", "v-1").exits(exitInterrupted).says("interrupted; nothing was changed", "asks to wait 50m0s")
		if took := time.Since(began); took > time.Minute+time.Second {
			t.Errorf("took %s", took)
		}
		d.run("volumes", "delete", "--yes", "v-1").exits(exitOK)
	})
}

// TestInterruptPasswordReset: like any change, a request that was sent is waited for. Its answer says whether a link is on its way.
func TestInterruptPasswordReset(t *testing.T) {
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		d.inject(emulator.Fault{Path: "/reset-password", Delay: 20 * time.Second, After: true})
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, interrupt)
		d.runWithin(ctx, "password", "reset").exits(exitOK).says("waiting for the portal's answer to the request for a reset link", "a reset link is on its way")
	})
}
