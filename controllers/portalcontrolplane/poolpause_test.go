// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalmachinepool"
)

var poolKey = client.ObjectKey{Namespace: prod.Namespace, Name: "pool"}

// addPool gives the house a MachinePool without replicas of its own, of which core knows a Node that exists and one that does not.
func (h *house) addPool(annotations map[string]string) {
	h.Helper()
	meta := metav1.ObjectMeta{Namespace: poolKey.Namespace, Name: poolKey.Name, Annotations: annotations, Labels: map[string]string{clusterv1.ClusterNameLabel: prod.Name}}
	mp := &clusterv1.MachinePool{ObjectMeta: meta}
	mp.Spec.Replicas = ptr.To[int32](0)
	mp.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: portalmachinepool.Kind, Name: poolKey.Name}
	mp.Status.NodeRefs = []corev1.ObjectReference{{Name: "gone", UID: "gone"}, {Name: h.worker().Name, UID: h.worker().UID}}
	for _, o := range []client.Object{mp, &infrav1.PortalMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: meta.Name}}} {
		if err := h.store.Create(h.Context(), o); err != nil {
			h.Fatal(err)
		}
	}
	if err := h.store.Status().Update(h.Context(), mp); err != nil {
		h.Fatal(err)
	}
}

func (h *house) worker() corev1.Node {
	h.Helper()
	unmarked, _, err := listNodes(h.Context(), h.nodes.Client)
	if err != nil || len(unmarked) == 0 {
		h.Fatal("no workers", err)
	}
	return unmarked[0]
}

func (h *house) machinePool() *clusterv1.MachinePool {
	h.Helper()
	mp := &clusterv1.MachinePool{}
	if err := h.store.Get(h.Context(), poolKey, mp); err != nil {
		h.Fatal(err)
	}
	return mp
}

// corePauses sets the condition that core sets when it has paused, or resumed, the MachinePool.
func (h *house) corePauses(status metav1.ConditionStatus) {
	h.Helper()
	mp := h.machinePool()
	conditions.Set(mp, metav1.Condition{Type: clusterv1.PausedCondition, Status: status, Reason: "Core"})
	if err := h.store.Status().Update(h.Context(), mp); err != nil {
		h.Fatal(err)
	}
}

// TestUpgradePausesPool checks that core has paused the MachinePool before the portal is asked to upgrade, and that it is resumed without
// nodeRefs when the upgrade has ended.
func TestUpgradePausesPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2, emulator.Durations{Upgrade: 2 * time.Minute})
		h.addPool(nil)
		h.corePauses(metav1.ConditionFalse)
		h.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		for range 3 { // core takes its time
			s := h.pass()
			o := s.outcomes[infrav1.VersionUpToDateCondition]
			if !pausedByProvider(h.machinePool()) || len(h.answers("upgrade")) > 0 || o.Reason != infrav1.WaitingForOperationReason || !strings.Contains(o.Message, "MachinePool pool") {
				t.Fatalf("annotations %v, asked %v: %+v", h.machinePool().Annotations, h.answers("upgrade"), o)
			}
		}
		h.corePauses(metav1.ConditionTrue)
		s := h.pass()
		if len(h.answers("upgrade")) != 1 || !s.op.Is(operation.Upgrade) {
			t.Fatalf("the portal was not asked: %+v", s.outcomes[infrav1.VersionUpToDateCondition])
		}
		for s = h.pass(); s.op != nil; s = h.pass() {
			if !pausedByProvider(h.machinePool()) {
				t.Fatal("the MachinePool was resumed during the upgrade")
			}
			time.Sleep(4 * time.Second)
		}
		if mp := h.machinePool(); pausedByProvider(mp) || len(mp.Status.NodeRefs) > 0 || !h.allRun(after) {
			t.Errorf("annotations %v, nodeRefs %v", mp.Annotations, mp.Status.NodeRefs)
		}
	})
}

// TestNoPause checks when an upgrade does not wait for core, and which pause the provider leaves alone.
func TestNoPause(t *testing.T) {
	users := map[string]string{clusterv1.PausedAnnotation: ""}
	for title, test := range map[string]struct {
		annotations map[string]string
		prepare     func(*house)
		paused      bool
	}{
		"core has never seen the MachinePool": {users, func(*house) {}, true},
		"a user has paused it":                {users, func(h *house) { h.corePauses(metav1.ConditionTrue) }, true},
		"the provider sets the providerIDs": {nil, func(h *house) {
			h.nodes.ids = func(m emulator.Node) string { return "portal://" + h.id + "/" + m.Name }
			for _, m := range h.portal.Clusters()[0].Nodes {
				node := &corev1.Node{}
				if err := h.nodes.Get(h.Context(), client.ObjectKey{Name: m.Name}, node); err != nil {
					h.Fatal(err)
				}
				node.Spec.ProviderID = h.nodes.ids(m)
				if err := h.nodes.Update(h.Context(), node); err != nil {
					h.Fatal(err)
				}
			}
		}, false},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 2, emulator.Durations{})
				h.addPool(test.annotations)
				test.prepare(h)
				h.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
				s := h.pass()
				if len(h.answers("upgrade")) != 1 {
					t.Errorf("the portal was not asked: %+v", s.outcomes[infrav1.VersionUpToDateCondition])
				}
				time.Sleep(time.Hour)
				h.pass()
				if metav1.HasAnnotation(h.machinePool().ObjectMeta, clusterv1.PausedAnnotation) != test.paused {
					t.Errorf("annotations %v", h.machinePool().Annotations)
				}
			})
		})
	}
}

// TestForgetsNodesOfPool checks that nodeRefs to Nodes that are gone are removed also without an upgrade.
func TestForgetsNodesOfPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2, emulator.Durations{})
		h.addPool(nil)
		h.pass()
		if refs := h.machinePool().Status.NodeRefs; len(refs) != 1 || refs[0].UID != h.worker().UID {
			t.Errorf("nodeRefs %v", refs)
		}
	})
}

// TestDeletedClusterResumesPool checks that a MachinePool which core has to delete is not left paused, and that core knows no earlier Node
// of it by name.
func TestDeletedClusterResumesPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2, emulator.Durations{})
		h.addPool(map[string]string{clusterv1.PausedAnnotation: pausedForUpgrade})
		if err := h.manager.dropHooks(t.Context(), h.scope()); err != nil {
			t.Fatal(err)
		}
		if mp := h.machinePool(); pausedByProvider(mp) || len(mp.Status.NodeRefs) > 0 {
			t.Errorf("annotations %v, nodeRefs %v", mp.Annotations, mp.Status.NodeRefs)
		}
	})
}

// TestRefusedUpgradeResumesPool checks that the MachinePool is not paused while the portal refuses the upgrade.
func TestRefusedUpgradeResumesPool(t *testing.T) {
	for _, code := range []string{emulator.CodeQuotaExceeded, emulator.CodeInvalidParameter} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, 2, emulator.Durations{})
				h.addPool(nil)
				h.strike(emulator.Fault{Path: "/kubernetes-clusters/*/upgrade", Code: code})
				h.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
				paused := 0
				const passes = 6 * 60
				for range passes {
					h.pass()
					pausedNow := pausedByProvider(h.machinePool())
					if pausedNow {
						paused++
					}
					h.corePauses(map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[pausedNow])
					time.Sleep(time.Minute)
				}
				asked := len(h.answers("upgrade"))
				if asked < 10 || paused > asked {
					t.Errorf("paused after %d of %d passes, and the portal was asked %d times", paused, passes, asked)
				}
			})
		})
	}
}

// TestPauseSurvivesRateLimit checks that a request that waits for the rate limit does not end the pause that core has confirmed.
func TestPauseSurvivesRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2, emulator.Durations{Upgrade: 2 * time.Minute})
		h.addPool(nil)
		h.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		h.corePauses(metav1.ConditionFalse)
		h.pass()
		time.Sleep(3 * time.Minute) // the list of versions has to be read again
		h.corePauses(metav1.ConditionTrue)
		h.strike(emulator.Fault{Path: "/kubernetes-versions", Status: http.StatusTooManyRequests, Count: 1})
		h.pass()
		if !pausedByProvider(h.machinePool()) {
			t.Error("the MachinePool was resumed")
		}
	})
}

// TestDeletedPoolIsNotPaused checks that an upgrade waits for the deletion of a MachinePool. Core would not delete a paused one.
func TestDeletedPoolIsNotPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, 2, emulator.Durations{})
		h.addPool(nil)
		mp := h.machinePool()
		mp.Finalizers = []string{clusterv1.MachinePoolFinalizer}
		if err := h.store.Update(t.Context(), mp); err != nil {
			t.Fatal(err)
		}
		if err := h.store.Delete(t.Context(), mp); err != nil {
			t.Fatal(err)
		}
		h.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		o := h.pass().outcomes[infrav1.VersionUpToDateCondition]
		if pausedByProvider(h.machinePool()) || o.Reason != infrav1.WaitingForOperationReason || len(h.answers("upgrade")) > 0 {
			t.Errorf("annotations %v: %+v", h.machinePool().Annotations, o)
		}
	})
}
