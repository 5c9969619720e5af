// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// readRoutes are the GETs of a cluster's life.
var readRoutes = []string{"/vpcs", "/kubernetes-versions", "/jobs/{job_id}", "/kubernetes-clusters/{cluster_id}/config", "/instances"}

// noteReasons returns the conditions with one of the reasons that objects have had at any time since.
func (w *World) noteReasons(reasons ...string) func() []string {
	var seen []string
	w.watching = append(w.watching, func(c change) {
		all, _, _ := unstructured.NestedSlice(c.object().Object, "status", "conditions")
		for _, one := range all {
			if m, _ := one.(map[string]any); slices.Contains(reasons, fmt.Sprint(m["reason"])) {
				seen = append(seen, fmt.Sprint(c.object().GetKind(), " ", m["type"], ": ", m["reason"], ": ", m["message"]))
			}
		}
	})
	return func() []string { return slices.Compact(seen) }
}

// TestPortalIsAway has the portal answer 503 to everything for a while, and a load balancer 404 to each GET of a cluster's life for ten seconds,
// before each change. The Cluster stays available. Each change is made once, and no condition asks a person for anything.
func TestPortalIsAway(t *testing.T) {
	tale(t, func(w *World) {
		asksPerson := w.noteReasons(infrav1.OutcomeUnknownReason, infrav1.AnswerLostReason, infrav1.PortalClusterGoneReason,
			infrav1.AccountChangedReason, infrav1.RefusedReason, infrav1.JobFailedReason)
		hidden := func(before string) {
			for _, route := range readRoutes {
				w.Strike(emulator.Fault{
					ID: before + route, Method: http.MethodGet, Path: route, For: 10 * time.Second, Status: http.StatusNotFound, Body: emulator.BodyHTML,
				})
			}
		}
		hidden("creation")
		w.CreateCluster(2)
		w.Settle(2)
		hidden("scale")
		w.Scale(3)
		w.Settle(3)
		w.Strike(emulator.Fault{ID: "away", Status: http.StatusServiceUnavailable})
		w.Scale(4)
		w.See(theControl(), infrav1.WorkersReadyCondition, "False "+infrav1.PortalUnavailableReason)
		w.Let(20 * time.Minute)
		w.See(theCluster(), clusterv1.ClusterControlPlaneAvailableCondition, "True")
		w.Heal("away")
		w.Settle(4)
		hidden("upgrade")
		w.SetVersion(newVersion)
		w.Upgraded(newVersion)
		hidden("deletion")
		w.End()
		var accepted []string
		for _, e := range w.Portal.RequestLog() {
			if e.IsChange() && e.Status == http.StatusAccepted {
				accepted = append(accepted, e.Method)
			}
		}
		Equal(w, "sizes", w.resizes(), [][2]int{{2, 3}, {3, 4}})
		Equal(w, "changes", len(accepted), len([]string{"create", "scale", "scale", "upgrade", "delete"}))
		Equal(w, "conditions that ask a person", asksPerson(), nil)
		hits := map[string]int{}
		for _, e := range w.Portal.RequestLog() {
			if e.Method == http.MethodGet && e.Status == http.StatusNotFound {
				hits[e.Route]++
			}
		}
		for route, least := range map[string]int{"/jobs/{job_id}": 4, "/kubernetes-clusters/{cluster_id}/config": 2, "/vpcs": 1, "/kubernetes-versions": 1} {
			if hits[route] < least {
				t.Errorf("%d answers 404 to %s", hits[route], route)
			}
		}
	})
}

// TestCrashInsideCalls cuts the connection before the portal creates anything. The provider cannot know that, and stops. The user allows one retry.
// The provider is killed before the portal answers that. The next one neither creates a second cluster nor forgets the first: it goes on with the id
// that the user sets. Then the provider dies before it learns of the jobs of a scale and of an upgrade, and while the job of another scale runs.
func TestCrashInsideCalls(t *testing.T) {
	tale(t, func(w *World) {
		w.Strike(emulator.Fault{ID: "cut", Path: createRoute, Cut: true, Count: 1})
		w.CreateCluster(2)
		w.See(theControl(), infrav1.AvailableCondition, "False "+infrav1.OutcomeUnknownReason)
		w.Let(time.Hour)
		w.Asked("create 0")
		w.Strike(emulator.Fault{ID: "create", Path: createRoute, After: true, Delay: 30 * time.Second, Count: 1})
		w.Decide(infrav1.DecisionRetry)
		w.Until("the portal has the cluster", Patience, func() string { return diff(fmt.Sprint(len(w.Portal.Clusters())), "1") })
		w.Restart()
		w.Let(time.Hour)
		c := w.Portal.Clusters()[0]
		w.See(theControl(), infrav1.AvailableCondition, "False "+infrav1.OutcomeUnknownReason,
			fmt.Sprintf("cannot know whether the portal created cluster %q", c.Name), "set spec.clusterID to its id", "kubectl annotate portalcontrolplane")
		annotations := read(w, theControl()).Annotations
		if _, blocks := annotations[clusterctlv1.BlockMoveAnnotation]; blocks {
			t.Error("a held unknown outcome blocks a move")
		}
		if _, decided := annotations[infrav1.DecisionAnnotation]; decided {
			t.Error("the annotation allows another retry")
		}
		Equal(w, "portal clusters", len(w.Portal.Clusters()), 1)
		Edit(w, key, theControl(), func(cp *infrav1.PortalControlPlane) {
			cp.Spec.ClusterID, cp.Spec.DeletionPolicy = c.ID, infrav1.DeletionPolicyDelete
		})
		w.Settle(2)

		w.Strike(emulator.Fault{ID: "unanswered", Path: scaleRoute, After: true, Delay: 30 * time.Second, Count: 1})
		w.Scale(3)
		w.Until("the portal scales", Patience, func() string { return diff(fmt.Sprint(w.size()), "3") })
		w.Restart()
		w.Settle(3)
		w.Strike(emulator.Fault{ID: "held", Path: scaleRoute, Job: emulator.JobStuck})
		w.Scale(4)
		w.Until("the provider knows the job", Patience, func() string { return diff(string(w.running()), string(operation.Scale)) })
		w.Restart()
		w.Heal("held")
		w.Settle(4)
		Equal(w, "sizes", w.resizes(), [][2]int{{2, 3}, {3, 4}})
		w.upgradeInsideCrash()
		w.Asked("create 0", "create", "scale", "scale", "upgrade")
		w.End()
	})
}

// upgradeInsideCrash kills the provider after the portal has started an upgrade and before it answers. VersionUpToDate is not True
// while a worker runs the old version.
func (w *World) upgradeInsideCrash() {
	w.Helper()
	w.Strike(emulator.Fault{ID: "upgrade", Path: upgradeRoute, Delay: 30 * time.Second, After: true, Job: emulator.JobStuck, Count: 1})
	w.SetVersion(newVersion)
	w.Until("the portal upgrades", Patience, func() string { return diff(string(w.Portal.Clusters()[0].State), string(emulator.ClusterUpgrading)) })
	w.Restart()
	w.See(theControl(), infrav1.VersionUpToDateCondition, "False")
	w.Heal("upgrade")
	w.See(theControl(), infrav1.VersionUpToDateCondition, "True")
	for _, n := range w.Portal.Clusters()[0].Nodes {
		Equal(w, "version of "+n.Name, n.Version, newVersion)
	}
	w.Upgraded(newVersion)
}

// running is the operation whose job the control plane knows.
func (w *World) running() operation.Type {
	w.Helper()
	cp := theControl()
	if !w.there(cp) {
		return ""
	}
	state, err := operation.Load(cp)
	w.must(err)
	if op := state.Op(); op != nil && op.JobID != "" {
		return op.Type
	}
	return ""
}

// TestRestartKeepsAvailable ends the provider. When the next one starts, the portal answers slowly and at first with 429, and the API server of
// the workload cluster does not answer. Conditions that are True stay True, also core's.
func TestRestartKeepsAvailable(t *testing.T) {
	tale(t, func(w *World) {
		w.CreateCluster(2)
		w.Settle(2)
		w.Let(time.Minute)
		before := w.transitions()
		w.Strike(emulator.Fault{ID: "slow", Delay: 3 * time.Second},
			emulator.Fault{ID: "limit", Status: http.StatusTooManyRequests, RetryAfter: 2 * time.Second, Count: 3})
		one := w.workloads.get(w.Portal.Clusters()[0].ID)
		w.workloads.set(one, "")
		w.Restart()
		w.Let(15 * time.Second)
		w.workloads.set(one, oldVersion)
		w.Let(time.Minute)
		Equal(w, "times at which conditions became True", w.transitions(), before)
		w.Scale(3)
		w.Settle(3)
		w.End()
	})
}

// transitions are when the True conditions of the provider's objects and of the Cluster became that.
func (w *World) transitions() map[string]time.Time {
	w.Helper()
	all := map[string]time.Time{}
	note := func(of conditions.Getter, only ...string) {
		for _, c := range of.GetConditions() {
			if c.Status == metav1.ConditionTrue && (len(only) == 0 || slices.Contains(only, c.Type)) {
				all[fmt.Sprintf("%T: %s", of, c.Type)] = c.LastTransitionTime.Time
			}
		}
	}
	note(read(w, theCluster()), clusterv1.ClusterAvailableCondition, clusterv1.ClusterInfrastructureReadyCondition, clusterv1.ClusterControlPlaneAvailableCondition)
	note(read(w, thePortalCluster()))
	note(read(w, theControl()))
	for _, m := range list[infrav1.PortalMachine](w, w.management, schema.GroupResource{Group: infrav1.GroupVersion.Group, Resource: "portalmachines"}) {
		note(m)
	}
	return all
}
