// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

const passes = 300

// created counts the resources that the work has created at the portal, and reports whether the object knows their id.
func (f *fixture) created() (count int, known bool) {
	cp := f.object()
	if f.work.Type == CreateNetwork {
		for _, n := range f.portal.Networks() {
			known = known || n.ID == cp.Annotations[networkAnnotation]
		}
		return len(f.portal.Networks()), known
	}
	clusters := f.portal.Clusters()
	return len(clusters), len(clusters) == 1 && clusters[0].ID == cp.Spec.ClusterID
}

// judge checks the invariants. A creation was sent once, and the created resource is known or held for a person. Every other
// operation is done, and the portal got one job for it.
func (f *fixture) judge(last outcome.Outcome) {
	f.Helper()
	jobs, requests := f.jobs()
	if !f.work.Type.Repeatable() {
		count, known := f.created()
		held := last.Reason == infrav1.OutcomeUnknownReason && f.operation().Lost()
		switch {
		case requests > 1 || count > 1:
			f.Errorf("%d requests made %d", requests, count)
		case count == 1 && !known && !held:
			f.Errorf("what was created is lost: %+v, %+v", f.operation(), last)
		case !held && !f.work.reached(f.object()):
			f.Errorf("neither done nor held: %+v, %+v", f.operation(), last)
		}
		return
	}
	if !f.work.reached(f.object()) || f.work.Type != Delete && !f.work.seen(f) || f.work.Type == Delete && len(f.portal.Clusters()) > 0 {
		f.Errorf("not done: %+v, record %+v, %+v", f.operation(), record(f.object()), last)
	}
	if jobs != 1 {
		f.Errorf("%d jobs after %d requests", jobs, requests)
	}
}

// TestCrashAtEveryWrite ends the manager at each of its writes, before or after it is stored, and starts another one, for every
// operation. The second manager is ended at each of its writes as well.
func TestCrashAtEveryWrite(t *testing.T) {
	for _, w := range works {
		lost := 0
		for first := 1; first <= 4; first++ {
			for second := range 4 {
				for _, stored := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/write %d, then %d, stored %v", w.Type, first, second, stored), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							f := newFixture(t, w, emulator.Options{})
							last, unanswered := f.crashes(stored, first, second)
							f.judge(last)
							if unanswered {
								lost++
							}
						})
					})
				}
			}
		}
		if lost == 0 {
			t.Errorf("%s: no crash lost an answer: the test does not reach the dangerous moment", w.Type)
		}
	}
}

// crashes runs managers that end at these of their writes (0: none), and one that does not. It reports whether a crash lost an answer.
func (f *fixture) crashes(stored bool, at ...int) (last outcome.Outcome, unanswered bool) {
	for _, write := range append(at, 0) {
		f.crashAt, f.stored = 0, stored
		if write > 0 {
			f.crashAt = int(f.writes.Load()) + write
		}
		var crashed bool
		last, crashed = f.manager(passes)
		op := f.operation()
		_, requests := f.jobs()
		unanswered = unanswered || crashed && requests > 0 && op.InFlight() && op.JobID == ""
	}
	return last, unanswered
}

// TestWritesThatFailOnce has the API server refuse each write once, for every operation: nothing is lost, not even an answer.
func TestWritesThatFailOnce(t *testing.T) {
	for _, w := range works {
		for failAt := 1; failAt <= 3; failAt++ {
			t.Run(fmt.Sprintf("%s/write %d", w.Type, failAt), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t, w, emulator.Options{})
					f.crashAt, f.refused = failAt, true
					last, _ := f.manager(passes)
					f.judge(last)
					if !f.work.reached(f.object()) || f.operation().Unknown != "" {
						t.Errorf("%+v, %+v", f.operation(), last)
					}
				})
			})
		}
	}
}

// TestPortalFaults makes the request, and its job, fail in every way, for every operation.
func TestPortalFaults(t *testing.T) {
	const held, again = infrav1.OutcomeUnknownReason, ""
	tests := map[string]struct {
		fault    emulator.Fault
		creation string // the reason of the last outcome of a creation; empty: created in the end
		requests int    // of a creation
		most     int    // jobs of the others
	}{
		"cut before the work":          {emulator.Fault{Cut: true}, held, 1, 1},
		"cut after the work":           {emulator.Fault{Cut: true, After: true}, held, 1, 1},
		"answer later than the client": {emulator.Fault{Delay: 6 * time.Minute, After: true}, held, 1, 1},
		"500 without the error shape":  {emulator.Fault{Status: 500, Body: emulator.BodyHTML}, held, 1, 1},
		"500 after the work":           {emulator.Fault{Status: 500, After: true}, held, 1, 1},
		"job forgotten":                {emulator.Fault{Job: emulator.JobForgotten}, held, 1, 1},
		"job without id":               {emulator.Fault{Job: emulator.JobWithoutID}, held, 1, 1},
		"job fails":                    {emulator.Fault{Job: emulator.JobFails}, again, 2, 2},
		"maintenance":                  {emulator.Fault{Status: 503}, again, 2, 1},
		"rate limited":                 {emulator.Fault{Code: "RATE_LIMITED"}, again, 2, 1},
		"busy":                         {emulator.Fault{Code: "RESOURCE_BUSY"}, again, 2, 1},
		"quota":                        {emulator.Fault{Code: "QUOTA_EXCEEDED"}, again, 2, 1},
		"token revoked":                {emulator.Fault{RevokeToken: true}, again, 2, 1},
	}
	for title, test := range tests {
		for _, w := range works {
			t.Run(string(w.Type)+"/"+title, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					test.fault.Count = 1
					f := newFixture(t, w, emulator.Options{Shapes: emulator.Shapes{NetworkStatus: 202}}, test.fault)
					last, _ := f.manager(passes)
					jobs, requests := f.jobs()
					switch {
					case w.Type.Repeatable() && (!w.reached(f.object()) || jobs > test.most):
						t.Errorf("%d jobs after %d requests: %+v, %+v", jobs, requests, f.operation(), last)
					case w.Type.Repeatable():
					case last.Reason != test.creation || requests != test.requests:
						t.Errorf("reason %q after %d requests, want %q after %d: %s", last.Reason, requests, test.creation, test.requests, last.Message)
					case last.Reason == held && !strings.Contains(last.Message, "to its id"):
						t.Errorf("no way out: %s", last.Message)
					}
					if count, _ := f.created(); count > 1 && test.fault.Job == "" {
						t.Errorf("%d were created", count)
					}
				})
			})
		}
	}
}

// TestFoundAfterAFailure: the answer to a creation is lost, and its job fails half way. The portal lists what is left of it. That is not taken for
// the cluster, neither while its creation runs nor later, when a person has to look.
func TestFoundAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := emulator.Fault{Count: 1, Cut: true, After: true, Job: emulator.JobFailsLate, JobCode: "INSUFFICIENT_CAPACITY"}
		f := newFixture(t, works[0], emulator.Options{ListClusters: true}, fault)
		all := f.passesFor(2 * time.Hour)
		last := all[len(all)-1]
		if left := f.portal.Clusters(); len(left) != 1 || f.object().Spec.ClusterID != "" || last.Reason != infrav1.OutcomeUnknownReason {
			t.Fatalf("the portal has %+v, the object has taken over %q: %+v", left, f.object().Spec.ClusterID, last)
		} else if !strings.Contains(last.Message, left[0].ID) || !strings.Contains(last.Message, infrav1.DecisionRetry.About(f.operation().ID)) {
			t.Errorf("it names neither the record nor the way out: %s", last.Message)
		}
		if _, requests := f.jobs(); requests != 1 {
			t.Errorf("%d creations", requests)
		}
	})
}

// TestFailedJobTakesAnotherName: a record may remain under the first.
func TestFailedJobTakesAnotherName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, works[0], emulator.Options{}, emulator.Fault{Count: 1, Job: emulator.JobFailsLate, JobCode: "INSUFFICIENT_CAPACITY"})
		last, _ := f.manager(passes)
		cp := f.object()
		if _, requests := f.jobs(); cp.Spec.ClusterName == "story-1" || cp.Spec.ClusterID == "" || requests != 2 {
			t.Errorf("name %q id %q after %d requests: %+v", cp.Spec.ClusterName, cp.Spec.ClusterID, requests, last)
		}
	})
}
