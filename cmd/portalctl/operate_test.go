// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestLostAnswer: a create whose outcome is unknown is sent once, and the output says how to find out.
func TestLostAnswer(t *testing.T) {
	for name, fault := range map[string]emulator.Fault{
		"cut after the work":      {Cut: true, After: true},
		"no answer in time":       {Delay: 6 * time.Minute},
		"job without an id":       {Job: emulator.JobWithoutID},
		"job forgotten":           {Job: emulator.JobForgotten},
		"job that cannot be read": {Body: emulator.BodyTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			at(t, emulator.Options{}, func(t *testing.T, d *desk) {
				fault.Method, fault.Path, fault.Count = "POST", "/kubernetes-clusters", 1
				d.inject(fault)
				d.run(d.createArgs("demo-x7k2p")...).exits(exitUnknown).
					says("named demo-x7k2p, created about 2000-01-01", "does not list clusters", "instances list", "second one")
				waitIdle() // a request is in the log when it has ended
				if n := d.calls("POST", "/kubernetes-clusters"); n != 1 {
					t.Errorf("create was sent %d times", n)
				}
			})
		})
	}
}

// TestLostAnswerLookedUp: a portal that lists clusters is asked.
func TestLostAnswerLookedUp(t *testing.T) {
	at(t, emulator.Options{ListClusters: true}, func(_ *testing.T, d *desk) {
		d.inject(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Cut: true, After: true, Count: 1})
		r := d.run(d.createArgs("demo")...).exits(exitUnknown)
		r.says("The portal lists under that name: " + d.portal.Clusters()[0].ID + " (Creating)")
		d.inject(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Cut: true, Count: 1})
		d.run(d.createArgs("other")...).exits(exitUnknown).says("lists no cluster named other now")
		waitIdle()
	})
}

// TestCreateLooksFirst: at a portal that lists clusters, the command can be repeated. It shows the cluster of that name as its result.
func TestCreateLooksFirst(t *testing.T) {
	at(t, emulator.Options{ListClusters: true}, func(t *testing.T, d *desk) {
		made := decode[job](d.run(d.createArgs("demo", "-ojson")...).exits(exitOK))
		again := decode[job](d.run(d.createArgs("demo", "-ojson")...).exits(exitOK).says("cluster named demo exists already", "not compared"))
		if id := made.Result["kubernetesCluster"].ID; id == "" || again.Result["kubernetesCluster"].ID != id || len(d.portal.Clusters()) != 1 {
			t.Errorf("%+v, then %+v", made, again)
		}
		d.create("other")
		d.inject(emulator.Fault{Method: "GET", Path: "/kubernetes-clusters", Cut: true})
		d.run(d.createArgs("third")...).exits(exitUnreachable)
		if n := d.calls("POST", "/kubernetes-clusters"); n != 2 {
			t.Errorf("%d creations", n)
		}
	})
	at(t, emulator.Options{}, func(t *testing.T, d *desk) { // without a list, nobody can know
		for range 2 {
			d.create("demo")
		}
		if n := len(d.portal.Clusters()); n != 2 {
			t.Errorf("%d clusters", n)
		}
	})
}

// TestCreateFindsWhatDoesNotRun: a script that repeats the command must not go on with a cluster that is being created or deleted, or whose
// creation has failed.
func TestCreateFindsWhatDoesNotRun(t *testing.T) {
	at(t, emulator.Options{ListClusters: true}, func(t *testing.T, d *desk) {
		again := func(name string, state emulator.ClusterState) {
			d.run(d.createArgs(name)...).exits(exitRefused).says("cluster "+name+" exists already", string(state), "does not run")
		}
		d.inject(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Job: emulator.JobFailsLate, Count: 1})
		d.run(d.createArgs("failed")...).exits(exitJobFailed)
		again("failed", emulator.ClusterFailed)
		d.create("demo", "--no-wait")
		again("demo", emulator.ClusterCreating)
		waitIdle()
		d.run("clusters", "delete", d.create("demo"), "--yes", "--no-wait").exits(exitOK)
		again("demo", emulator.ClusterDeleting)
		waitIdle()
		if n := d.calls("POST", "/kubernetes-clusters"); n != 2 {
			t.Errorf("%d creations", n)
		}
	})
}

// TestSizeIsForThePortalToJudge: the usual bound of 50 workers can be raised, so only the portal refuses more. A script that tries again
// later would be refused again.
func TestSizeIsForThePortalToJudge(t *testing.T) {
	for most, code := range map[int]exitCode{50: exitRefused, 60: exitOK} {
		at(t, emulator.Options{MaxWorkers: most}, func(_ *testing.T, d *desk) {
			d.run(d.createArgs("demo", "--size", "51")...).exits(code)
			d.run("clusters", "scale", d.create("other"), "--size", "51").exits(code)
		})
	}
}

// TestLostAnswerOfOthers: an operation with an absolute target may be repeated, and one that creates something may not.
func TestLostAnswerOfOthers(t *testing.T) {
	at(t, emulator.Options{Volumes: []emulator.Volume{{ID: "volume-1"}}}, func(t *testing.T, d *desk) {
		id := d.create("demo")
		d.inject(emulator.Fault{ID: "cut", Cut: true, After: true, Path: "/kubernetes-clusters/*/scale"})
		d.run("clusters", "scale", id, "--size", "3").exits(exitUnknown).says("run the same command again")
		waitIdle()
		d.portal.ClearFaults()
		d.run("clusters", "scale", id, "--size", "3").exits(exitOK)
		for endpoint, args := range map[string]string{
			"POST /networks": "networks create --cidr 10.1.0.0/24", "POST /vpcs": "vpcs create --name prod",
			"DELETE /volumes/*": "volumes delete volume-1 --yes", "POST /admin/mfa/disable/*": "mfa disable portal --yes",
			"POST /reset-password": "password reset",
		} {
			method, path, _ := strings.Cut(endpoint, " ")
			d.inject(emulator.Fault{Method: method, Cut: true, Path: path})
			d.run(strings.Fields(args)...).exits(exitUnknown).says("What to do: ")
		}
		for _, route := range []string{"/networks", "/vpcs", "/reset-password"} {
			if n := d.calls("POST", route); n != 1 {
				t.Errorf("POST %s was sent %d times", route, n)
			}
		}
	})
}

func TestFailedJob(t *testing.T) {
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		d.inject(emulator.Fault{Path: "/kubernetes-clusters", Job: emulator.JobFails, JobCode: "INSUFFICIENT_CAPACITY", JobMessage: "zone is full"})
		r := d.run(d.createArgs("demo", "-o", "json")...).exits(exitJobFailed).says("zone is full", "another zone", "record of cluster demo may remain")
		j := decode[job](r)
		if j.Status != "failed" || j.Error.Code != "INSUFFICIENT_CAPACITY" || j.Error.Message != "zone is full" {
			t.Errorf("job %+v", j)
		}
		d.run("jobs", "get", j.JobID).exits(exitOK).shows("failed", "zone is full")
		d.run("jobs", "wait", j.JobID).exits(exitJobFailed).shows("failed").says("zone is full")
	})
}

// TestNoWait prints the bare id, which the jobs commands take.
func TestNoWait(t *testing.T) {
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		id := d.run(d.createArgs("demo", "--no-wait")...).exits(exitOK).out
		if strings.Count(id, "\n") != 1 || !strings.HasPrefix(id, "job-") {
			t.Fatalf("printed %q", id)
		}
		id = strings.TrimSpace(id)
		d.run("jobs", "get", id).exits(exitOK).shows(id, "pending")
		d.run("jobs", "wait", id).exits(exitOK).shows("succeeded", "cluster-")
		if j := decode[job](d.run("jobs", "get", id, "-o", "json").exits(exitOK)); j.JobID != id || j.Result["kubernetesCluster"].ID == "" {
			t.Errorf("job %+v", j)
		}
		cluster := d.portal.Clusters()[0].ID
		if j := decode[job](d.run("clusters", "scale", cluster, "--size", "3", "--no-wait", "-ojson").exits(exitOK)); j.JobID == "" || j.Status != "pending" {
			t.Errorf("job %+v", j)
		}
		d.run("clusters", "scale", cluster, "--size", "4").exits(exitLater).says("RESOURCE_BUSY")
		for _, args := range [][]string{{"vpcs", "create", "--name", "default"}, {"networks", "create", "--cidr", "10.1.0.0/24"}} {
			if r := d.run(append(args, "--no-wait")...).exits(exitOK).says("no job to wait for"); r.out != "" {
				t.Errorf("%q: a script reads the id of a job, and this is none: %q", args, r.out)
			}
			if j := decode[job](d.run(append(args, "--no-wait", "-ojson")...).exits(exitOK)); j.Status != "succeeded" || len(j.Result) != 1 {
				t.Errorf("%q: %+v", args, j)
			}
		}
		d.run("jobs", "get", "job-none").exits(exitNotFound)
		d.run("jobs", "wait", "job-none").exits(exitNotFound)
		waitIdle()
	})
}

// TestFollow: how the wait for a job ends. A portal that is down for a while does not end it, and what will not pass does at once.
func TestFollow(t *testing.T) {
	mayRun := []string{"may still run", "jobs wait job-"}
	for name, test := range map[string]struct {
		fault       emulator.Fault
		code        exitCode
		says        []string
		least, most time.Duration
	}{
		"down for a while": {emulator.Fault{Path: "/jobs/*", Status: 503, Count: 5}, exitOK, []string{"trying again", "succeeded"}, 0, outageTimeout},
		"down":             {emulator.Fault{Path: "/jobs/*", Cut: true}, exitUnreachable, mayRun, outageTimeout, outageTimeout + time.Minute},
		"refused":          {emulator.Fault{Path: "/jobs/*", Status: 403}, exitRefused, mayRun, 0, 10 * time.Second},
		"a stuck job": {emulator.Fault{Path: "/kubernetes-clusters", Job: emulator.JobStuck}, exitStillRuns,
			[]string{"still running after 30m0s", "jobs wait job-", "stuck"}, 30 * time.Minute, 30 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			at(t, emulator.Options{Durations: emulator.Durations{Create: time.Minute}}, func(t *testing.T, d *desk) {
				d.inject(test.fault)
				if r := d.run(d.createArgs("demo")...).exits(test.code).says(test.says...); r.took < test.least || r.took > test.most {
					t.Errorf("waited %s", r.took)
				}
				if polls, most := d.calls("GET", "/jobs/{job_id}"), int(test.most/(5*time.Second)); polls > most {
					t.Errorf("%d polls in %s, want one every 5 s", polls, test.most)
				}
				d.portal.ClearFaults()
				d.run("jobs", "wait", d.portal.Jobs()[0].ID).exits(exitOK)
			})
		})
	}
}

// TestSlowUpgrade: the portal's specification gives an upgrade of 12 nodes more than half an hour, so nothing is called stuck then.
func TestSlowUpgrade(t *testing.T) {
	at(t, emulator.Options{Durations: emulator.Durations{Upgrade: 45 * time.Minute}}, func(_ *testing.T, d *desk) {
		id := d.create("demo", "--size", "11")
		d.run("clusters", "upgrade", id, "--version", "v1.36.3").exits(exitStillRuns).
			says("still running after 30m0s", "an upgrade only if the cluster's nodes (kubectl get nodes) have shown no progress")
		jobs := d.portal.Jobs()
		d.run("jobs", "wait", jobs[len(jobs)-1].ID).exits(exitOK)
		d.run("clusters", "upgrade", id, "--version", "v1.36.3", "--timeout", "50m").exits(exitOK)
	})
}

// TestLateAnswer: a portal that takes minutes to answer a creation loses nothing, however short the timeout is. It counts for the job.
func TestLateAnswer(t *testing.T) {
	at(t, emulator.Options{}, func(_ *testing.T, d *desk) {
		for _, path := range []string{"/kubernetes-clusters", "/vpcs", "/networks"} {
			d.inject(emulator.Fault{Method: "POST", Path: path, Delay: 280 * time.Second, After: true})
		}
		for _, args := range [][]string{
			d.createArgs("demo", "--timeout", "30s"), {"vpcs", "create", "--name", "prod", "--timeout", "30s"}, {"networks", "create", "--cidr", "10.1.0.0/24"},
		} {
			d.run(args...).exits(exitOK).says("has not answered the create of")
		}
	})
}

// TestInterrupt: Ctrl-C calls nothing off that was sent. The program waits for the answer of such a call, because it names the job. What was not
// sent yet, or was refused by the rate limit, is not sent.
func TestInterrupt(t *testing.T) {
	late := func(method, path string) emulator.Fault {
		return emulator.Fault{Method: method, Path: path, Delay: 20 * time.Second, After: true}
	}
	refused := emulator.Fault{Method: "DELETE", Path: "/volumes/*", Status: 429, RetryAfter: 50 * time.Minute, Count: 1}
	for name, test := range map[string]struct {
		fault emulator.Fault
		args  []string // after those of a creation, if they are flags
		code  exitCode
		says  []string
		made  int // clusters
	}{
		"while the job runs": {late("GET", "/jobs/*"), nil, exitInterrupted, []string{"runs on at the portal", "jobs wait job-"}, 1},
		"during the call": {late("POST", "/kubernetes-clusters"), nil, exitInterrupted,
			[]string{"waiting for the portal's answer to the create of cluster demo", "jobs wait job-"}, 1},
		"without waiting":  {late("POST", "/kubernetes-clusters"), []string{"--no-wait"}, exitOK, []string{"job-"}, 1},
		"during the login": {late("POST", "/login"), nil, exitInterrupted, []string{"nothing was changed"}, 0},
		"between refusals": {refused, []string{"volumes", "delete", "--yes", "v-1"}, exitInterrupted,
			[]string{"interrupted; nothing was changed", "asks to wait 50m0s"}, 0},
		"a reset link": {late("POST", "/reset-password"), []string{"password", "reset"}, exitOK,
			[]string{"waiting for the portal's answer to the request for a reset link", "a reset link is on its way"}, 0},
		"the doctor": {late("GET", "/kubernetes-versions"), []string{"doctor"}, exitInterrupted, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			at(t, someVolumes(), func(t *testing.T, d *desk) {
				if len(test.args) == 0 || strings.HasPrefix(test.args[0], "-") {
					test.args = d.createArgs("demo", test.args...)
				}
				d.inject(test.fault)
				r := d.interrupt(10*time.Second, test.args...).exits(test.code)
				r.err += r.out
				if r.says(test.says...); r.took > 30*time.Second {
					t.Errorf("took %s", r.took)
				}
				waitIdle()
				if clusters, volumes := len(d.portal.Clusters()), len(d.portal.Volumes()); clusters != test.made || volumes != 4 {
					t.Errorf("%d clusters, %d volumes", clusters, volumes)
				}
			})
		})
	}
}

// TestProgress: a line for each change, or one line that is redrawn.
func TestProgress(t *testing.T) {
	long := emulator.Options{Durations: emulator.Durations{Create: 150 * time.Second}}
	at(t, long, func(t *testing.T, d *desk) {
		r := d.run(d.createArgs("demo")...).exits(exitOK)
		var lines []string
		for line := range strings.Lines(r.err) {
			if strings.HasPrefix(line, "create of cluster") {
				_, told, _ := strings.Cut(strings.TrimSpace(line), "): ")
				lines = append(lines, told)
			}
		}
		want := "pending, 0s|running, 5s|running, 1m5s|running, 2m5s|succeeded, 2m35s"
		if got := strings.Join(lines, "|"); got != want {
			t.Errorf("told %s, want %s", got, want)
		}
		if strings.Contains(r.err, "\x1b") {
			t.Errorf("control characters without a terminal: %q", r.err)
		}
	})
	at(t, long, func(t *testing.T, d *desk) {
		d.live = true
		r := d.run(d.createArgs("demo")...).exits(exitOK).says("\r\x1b[K", "running, 1m17s", "succeeded, 2m35s\n")
		if strings.Contains(r.out, "\x1b") {
			t.Errorf("control characters in the result: %q", r.out)
		}
	})
}

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
