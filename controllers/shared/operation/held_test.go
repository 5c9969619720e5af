// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"testing"
	"testing/synctest"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// passesFor runs passes over the object until the work is done or the time is over. It returns the outcomes of all passes, and looks
// at the object a second after each one, as if events woke it.
func (f *fixture) passesFor(most time.Duration) (all []outcome.Outcome) {
	f.Helper()
	portal, backoff := f.client(), &outcome.Backoff{}
	for end := time.Now().Add(most); time.Now().Before(end) && !f.work.reached(f.object()); time.Sleep(time.Second) {
		all = append(all, f.pass(f.runner(f.object(), portal, backoff)))
	}
	return all
}

func (f *fixture) inject(fault emulator.Fault) {
	f.Helper()
	if err := f.portal.Inject(fault); err != nil {
		f.Fatal(err)
	}
}

// gets counts the requests for the route.
func (f *fixture) gets(route string) (n int) {
	for _, e := range f.portal.RequestLog() {
		if e.Method == "GET" && e.Route == route {
			n++
		}
	}
	return n
}

// slowNetworks creates networks by a job.
var slowNetworks = emulator.Options{Shapes: emulator.Shapes{NetworkStatus: 202}}

// TestJobThatIsNotKnownYet: the portal answers the first polls of a creation's job with 404, as if it did not know the job, or
// another server answers in its place. The creation ends without a person, and is sent once.
func TestJobThatIsNotKnownYet(t *testing.T) {
	for title, fault := range map[string]emulator.Fault{
		"once":                      {Code: emulator.CodeResourceNotFound, Count: 1},
		"for three minutes":         {Code: emulator.CodeResourceNotFound, For: 3 * time.Minute},
		"another server, once":      {Status: 404, Body: emulator.BodyHTML, Count: 1},
		"another server, a minute":  {Status: 404, Body: emulator.BodyHTML, For: time.Minute},
		"another server, no answer": {Status: 404, Body: emulator.BodyEmpty, For: time.Minute},
	} {
		for _, w := range works[:2] {
			t.Run(title+"/"+string(w.Type), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFixture(t, w, slowNetworks)
					fault.Path = "/jobs/{job_id}"
					f.inject(fault)
					lost := false
					for range f.passesFor(20 * time.Minute) {
						lost = lost || f.operation().Lost()
					}
					if _, requests := f.jobs(); requests != 1 || !w.reached(f.object()) {
						t.Errorf("%d requests, %+v", requests, f.operation())
					}
					if fault.Body != "" && lost {
						t.Error("an answer of another server makes the creation lost")
					}
				})
			})
		}
	}
}

// TestHeldCreationIsLookedForRarely: a creation that stays lost is reported by every pass, and costs few requests.
func TestHeldCreationIsLookedForRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, works[0], emulator.Options{Shapes: emulator.Shapes{LookupStatus: 405}})
		f.inject(emulator.Fault{Path: "/jobs/{job_id}", Code: emulator.CodeResourceNotFound})
		all := f.passesFor(time.Hour)
		for _, o := range all[20:] {
			if o.Reason != "OutcomeUnknown" || o.RequeueAfter <= 0 {
				t.Fatalf("%+v", o)
			}
		}
		if jobs, names := f.gets("/jobs/{job_id}"), f.gets("/kubernetes-clusters"); jobs < 8 || jobs > 13 || names < 8 || names > 13 {
			t.Errorf("in an hour, %d requests for the job and %d for the name", jobs, names)
		}
		if _, requests := f.jobs(); requests != 1 {
			t.Errorf("%d creations", requests)
		}
	})
}

// TestLookupDuringAnOutage: the answer to a creation is lost because the portal restarts, so it cannot answer the first lookups by
// name either. The cluster is found when the portal is back. No person is asked if it can answer at once.
func TestLookupDuringAnOutage(t *testing.T) {
	for title, outage := range map[string]*emulator.Fault{
		"none":       nil,
		"502":        {Status: 502, Body: emulator.BodyHTML},
		"404":        {Status: 404, Body: emulator.BodyHTML},
		"no answer":  {Cut: true},
		"no cluster": {Status: 405},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, works[0], emulator.Options{ListClusters: true}, emulator.Fault{Cut: true, After: true})
				if outage != nil {
					outage.Method, outage.Path, outage.For = "GET", "/kubernetes-clusters", time.Minute
					f.inject(*outage)
				}
				for i, o := range f.passesFor(20 * time.Minute) {
					if outage == nil && i > 0 && o.Kind == outcome.Stalled {
						t.Fatalf("a person is asked, although the portal lists the cluster: %+v", o)
					}
				}
				if _, requests := f.jobs(); requests != 1 || !f.work.reached(f.object()) || f.object().Spec.ClusterID != f.portal.Clusters()[0].ID {
					t.Errorf("%d requests, %+v", requests, f.operation())
				}
			})
		})
	}
}

// TestWhatProvesNothing lists clusters under the name of a lost creation that may be someone else's: several of one name, or one under a name that
// a person chose and another person may have chosen, too. None of them is taken over.
func TestWhatProvesNothing(t *testing.T) {
	for title, test := range map[string]struct {
		twin      bool
		generated string
	}{
		"two of one name":            {true, "story-1"},
		"the name was chosen":        {false, ""},
		"another name was generated": {false, "story-2"},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, works[0], emulator.Options{ListClusters: true})
				if test.twin {
					f.existing()
				}
				cp := f.object()
				State{Record: Record{Name: test.generated, Size: SizeUnknown}}.Put(cp)
				if err := f.store.Update(t.Context(), cp); err != nil {
					t.Fatal(err)
				}
				f.inject(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Cut: true, After: true})
				all := f.passesFor(40 * time.Minute)
				if id, o := f.object().Spec.ClusterID, all[len(all)-1]; id != "" || o.Reason != infrav1.OutcomeUnknownReason || len(f.portal.Clusters()) == 0 {
					t.Errorf("taken over: %q of %v, %+v", id, f.portal.Clusters(), o)
				}
			})
		})
	}
}
