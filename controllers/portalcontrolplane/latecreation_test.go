// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// slowCreations is how a portal of the likely family answers: not before it has reserved everything.
func slowCreations(wait time.Duration) emulator.Fault {
	return emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Delay: wait, After: true}
}

// create takes the object one pass further, and returns how long the pass kept a worker.
func (e *estate) create(key client.ObjectKey) (outcome.Outcome, time.Duration) {
	e.Helper()
	began, s := time.Now(), e.scope(key)
	if err := e.manager.Ownership.Begin(e.Context(), &s.Pass); err != nil {
		e.Fatal(err)
	}
	return e.manager.reconcileCluster(e.Context(), s), time.Since(began)
}

// TestLateCreation has the portal answer a creation after more than a minute. One cluster is created, no person is asked, and the passes that see
// the creation wait keep their worker for a moment only.
func TestLateCreation(t *testing.T) {
	for _, late := range []time.Duration{75 * time.Second, 150 * time.Second, 280 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEstate(t, false)
				if err := e.portal.Inject(slowCreations(late)); err != nil {
					t.Fatal(err)
				}
				key := e.add("fleet", "prod", nil)
				waited := 0
				for began := time.Now(); e.get(key).Spec.ClusterID == "" && time.Since(began) < 30*time.Minute; time.Sleep(10 * time.Second) {
					o, took := e.create(key)
					if o.Reason == infrav1.OutcomeUnknownReason || took > 3*time.Second {
						t.Fatalf("after %s, a pass of %s: %s", time.Since(began), took, o.Message)
					}
					if s := stateOf(e.get(key)); s.Op() != nil && s.Op().JobID == "" {
						waited++
						if o.Reason != infrav1.CreatingReason {
							t.Errorf("while the portal does not answer: %+v", o)
						}
					}
				}
				if clusters := e.portal.Clusters(); len(clusters) != 1 || e.get(key).Spec.ClusterID != clusters[0].ID || e.asked("POST") != 1 || waited == 0 {
					t.Errorf("%d creations made %v, and the object has %q. %d passes saw the wait", e.asked("POST"), clusters, e.get(key).Spec.ClusterID, waited)
				}
			})
		})
	}
}

// TestOthersDoNotWaitForLateCreations has one worker for all objects. While the portal leaves ten creations without an answer, the deletions of
// twenty other clusters of the account are accepted as fast as without the creations.
func TestOthersDoNotWaitForLateCreations(t *testing.T) {
	deletions := func(t *testing.T, creations int) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			e := newEstate(t, false)
			var running, created []client.ObjectKey
			for i := range 20 {
				running = append(running, e.add("fleet", fmt.Sprintf("running-%d", i), nil))
			}
			e.passes(running...)
			e.passes(running...)
			e.events()
			if err := e.portal.Inject(slowCreations(280 * time.Second)); err != nil {
				t.Fatal(err)
			}
			for i := range creations {
				created = append(created, e.add("fleet", fmt.Sprintf("new-%d", i), nil))
			}
			for range 3 { // the passes that send them
				for _, key := range created {
					e.create(key)
				}
			}
			began := time.Now()
			for _, key := range running {
				e.sendsDelete(key)
			}
			took = time.Since(began)
			for _, key := range created {
				if s := stateOf(e.get(key)); s.Op() != nil && s.Op().JobID == "" {
					creations--
				}
			}
			if len(created) > 0 && creations == len(created) {
				t.Error("no creation was waited for in this time")
			}
			time.Sleep(10 * time.Minute) // until the portal has answered
		})
		return took
	}
	alone, beside := deletions(t, 0), deletions(t, 10)
	if beside > alone+time.Second {
		t.Errorf("twenty deletions were accepted within %s, and beside ten creations within %s", alone, beside)
	}
}

// sendsDelete takes the deletion of an object as far as its request.
func (e *estate) sendsDelete(key client.ObjectKey) {
	e.Helper()
	if err := e.store.Delete(e.Context(), e.get(key)); err != nil {
		e.Fatal(err)
	}
	for range 50 {
		s := e.scope(key)
		if e.manager.Lifecycle.Delete(e.Context(), &s.Pass, noVolumes); s.Op() != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	e.Errorf("%s: the deletion is not sent", key)
}

func blocksMove(cp *infrav1.PortalControlPlane) bool {
	return metav1.HasAnnotation(cp.ObjectMeta, clusterctlv1.BlockMoveAnnotation)
}

// TestPausedDuringALateCreation pauses an object while the portal has not answered its creation. The object must not be moved to another
// management cluster before the answer is stored.
func TestPausedDuringALateCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEstate(t, false)
		if err := e.portal.Inject(slowCreations(75 * time.Second)); err != nil {
			t.Fatal(err)
		}
		key := e.add("fleet", "prod", nil)
		for range 3 {
			e.create(key)
			time.Sleep(5 * time.Second)
		}
		if err := e.manager.writer().UnblockMove(t.Context(), e.get(key)); err != nil {
			t.Fatal(err)
		}
		if !blocksMove(e.get(key)) {
			t.Error("it may be moved during the call, so the answer would be stored here and the creation lost there")
		}
		time.Sleep(2 * time.Minute)
		e.events()
		if s := stateOf(e.get(key)); blocksMove(e.get(key)) || s.Last == nil || s.Last.JobID == "" {
			t.Errorf("after the answer: %+v", s.Last)
		}
	})
}
