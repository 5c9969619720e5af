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

// addPool gives the fixture a MachinePool without replicas of its own, of which core knows a Node that exists and one that does not.
func (f *fixture) addPool(annotations map[string]string) {
	f.Helper()
	meta := metav1.ObjectMeta{Namespace: poolKey.Namespace, Name: poolKey.Name, Annotations: annotations, Labels: map[string]string{clusterv1.ClusterNameLabel: prod.Name}}
	mp := &clusterv1.MachinePool{ObjectMeta: meta}
	mp.Spec.Replicas = ptr.To[int32](0)
	mp.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: portalmachinepool.Kind, Name: poolKey.Name}
	mp.Status.NodeRefs = []corev1.ObjectReference{{Name: "gone", UID: "gone"}, {Name: f.worker().Name, UID: f.worker().UID}}
	for _, o := range []client.Object{mp, &infrav1.PortalMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: meta.Name}}} {
		f.must(f.store.Create(f.Context(), o))
	}
	f.must(f.store.Status().Update(f.Context(), mp))
}

func (f *fixture) worker() corev1.Node {
	f.Helper()
	all := f.workers()
	if len(all) == 0 {
		f.Fatal("no workers")
	}
	return all[0]
}

func (f *fixture) machinePool() *clusterv1.MachinePool {
	f.Helper()
	mp := &clusterv1.MachinePool{}
	f.must(f.store.Get(f.Context(), poolKey, mp))
	return mp
}

// poolPaused reports whether the provider has paused the MachinePool.
func (f *fixture) poolPaused() bool {
	return f.machinePool().Annotations[clusterv1.PausedAnnotation] == "portal-upgrade"
}

// corePauses sets the condition that core sets when it has paused, or resumed, the MachinePool.
func (f *fixture) corePauses(status metav1.ConditionStatus) {
	f.Helper()
	mp := f.machinePool()
	conditions.Set(mp, metav1.Condition{Type: clusterv1.PausedCondition, Status: status, Reason: "Core"})
	f.must(f.store.Status().Update(f.Context(), mp))
}

// TestUpgradePausesPool checks that core has paused the MachinePool before the portal is asked to upgrade, and that it is resumed without
// nodeRefs when the upgrade has ended.
func TestUpgradePausesPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{Upgrade: 2 * time.Minute})
		f.addPool(nil)
		f.corePauses(metav1.ConditionFalse)
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		for range 3 { // core takes its time
			s := f.pass()
			o := s.outcomes[infrav1.VersionUpToDateCondition]
			if !f.poolPaused() || len(f.answers("upgrade")) > 0 || o.Reason != infrav1.WaitingForOperationReason || !strings.Contains(o.Message, "MachinePool pool") {
				t.Fatalf("annotations %v, asked %v: %+v", f.machinePool().Annotations, f.answers("upgrade"), o)
			}
		}
		f.corePauses(metav1.ConditionTrue)
		s := f.pass()
		if len(f.answers("upgrade")) != 1 || !s.Op().Is(operation.Upgrade) {
			t.Fatalf("the portal was not asked: %+v", s.outcomes[infrav1.VersionUpToDateCondition])
		}
		for s = f.pass(); s.Op() != nil; s = f.pass() {
			if !f.poolPaused() {
				t.Fatal("the MachinePool was resumed during the upgrade")
			}
			time.Sleep(4 * time.Second)
		}
		if mp := f.machinePool(); f.poolPaused() || len(mp.Status.NodeRefs) > 0 || !f.allRun(after) {
			t.Errorf("annotations %v, nodeRefs %v", mp.Annotations, mp.Status.NodeRefs)
		}
	})
}

// TestNoPause checks when an upgrade does not wait for core, and which pause the provider leaves alone.
func TestNoPause(t *testing.T) {
	users := map[string]string{clusterv1.PausedAnnotation: ""}
	type row struct {
		annotations map[string]string
		prepare     func(*fixture)
		paused      bool
	}
	cases(t, map[string]row{
		"core has never seen the MachinePool": {users, func(*fixture) {}, true},
		"a user has paused it":                {users, func(f *fixture) { f.corePauses(metav1.ConditionTrue) }, true},
		"the provider sets the providerIDs": {nil, func(f *fixture) {
			f.nodes.ids = func(m emulator.Node) string { return "portal://" + f.id + "/" + m.Name }
			for _, m := range f.portal.Clusters()[0].Nodes {
				node := &corev1.Node{}
				f.must(f.nodes.Get(f.Context(), client.ObjectKey{Name: m.Name}, node))
				node.Spec.ProviderID = f.nodes.ids(m)
				f.must(f.nodes.Update(f.Context(), node))
			}
		}, false},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 2, emulator.Durations{})
		f.addPool(test.annotations)
		test.prepare(f)
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		s := f.pass()
		if len(f.answers("upgrade")) != 1 {
			t.Errorf("the portal was not asked: %+v", s.outcomes[infrav1.VersionUpToDateCondition])
		}
		time.Sleep(time.Hour)
		f.pass()
		if metav1.HasAnnotation(f.machinePool().ObjectMeta, clusterv1.PausedAnnotation) != test.paused {
			t.Errorf("annotations %v", f.machinePool().Annotations)
		}
	})
}

// TestForgetsNodesOfPool checks that nodeRefs to Nodes that are gone are removed also without an upgrade.
func TestForgetsNodesOfPool(t *testing.T) {
	live(t, 2, func(f *fixture) {
		f.addPool(nil)
		f.pass()
		if refs := f.machinePool().Status.NodeRefs; len(refs) != 1 || refs[0].UID != f.worker().UID {
			f.Errorf("nodeRefs %v", refs)
		}
	})
}

// TestDeletedClusterIsReleased checks that core can delete the objects of a Cluster: its MachinePool is not left paused, core knows no earlier Node of
// it by name, and core waits for no hook of the provider.
func TestDeletedClusterIsReleased(t *testing.T) {
	live(t, 2, func(f *fixture) {
		f.addPool(map[string]string{clusterv1.PausedAnnotation: "portal-upgrade"})
		f.machine("held", func(m *clusterv1.Machine) {
			m.Annotations = map[string]string{infrav1.PreDrainHook: "", infrav1.PreTerminateHook: "", "user": "stays"}
		})
		s := f.scope()
		f.must(f.manager.workers(s).Release(f.Context(), &s.Pass, s.way))
		if mp := f.machinePool(); f.poolPaused() || len(mp.Status.NodeRefs) > 0 {
			f.Errorf("annotations %v, nodeRefs %v", mp.Annotations, mp.Status.NodeRefs)
		}
		machine := &clusterv1.Machine{}
		if err := f.store.Get(f.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: "held"}, machine); err != nil || len(machine.Annotations) != 1 {
			f.Errorf("%v, annotations %v", err, machine.Annotations)
		}
	})
}

// TestRefusedUpgradeResumesPool checks that the MachinePool is not paused while the portal refuses the upgrade.
func TestRefusedUpgradeResumesPool(t *testing.T) {
	for _, code := range []string{emulator.CodeQuotaExceeded, emulator.CodeInvalidParameter} {
		t.Run(code, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 2, emulator.Durations{})
				f.addPool(nil)
				f.strike(emulator.Fault{Path: "/kubernetes-clusters/*/upgrade", Code: code})
				f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
				paused := 0
				const passes = 6 * 60
				for range passes {
					f.pass()
					pausedNow := f.poolPaused()
					if pausedNow {
						paused++
					}
					f.corePauses(map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[pausedNow])
					time.Sleep(time.Minute)
				}
				asked := len(f.answers("upgrade"))
				// The last pass may have paused the MachinePool for an attempt of the next.
				if asked < 10 || paused > asked+1 {
					t.Errorf("paused after %d of %d passes, and the portal was asked %d times", paused, passes, asked)
				}
			})
		})
	}
}

// TestPauseSurvivesRateLimit checks that a request that waits for the rate limit does not end the pause that core has confirmed.
func TestPauseSurvivesRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{Upgrade: 2 * time.Minute})
		f.addPool(nil)
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		f.corePauses(metav1.ConditionFalse)
		f.pass()
		time.Sleep(3 * time.Minute) // the list of versions has to be read again
		f.corePauses(metav1.ConditionTrue)
		f.strike(emulator.Fault{Path: "/kubernetes-versions", Status: http.StatusTooManyRequests, Count: 1})
		f.pass()
		if !f.poolPaused() {
			t.Error("the MachinePool was resumed")
		}
	})
}

// TestDeletedPoolIsNotPaused checks that an upgrade waits for the deletion of a MachinePool. Core would not delete a paused one.
func TestDeletedPoolIsNotPaused(t *testing.T) {
	live(t, 2, func(f *fixture) {
		f.addPool(nil)
		mp := f.machinePool()
		mp.Finalizers = []string{clusterv1.MachinePoolFinalizer}
		f.must(f.store.Update(f.Context(), mp))
		f.must(f.store.Delete(f.Context(), mp))
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		o := f.pass().outcomes[infrav1.VersionUpToDateCondition]
		if f.poolPaused() || o.Reason != infrav1.WaitingForOperationReason || len(f.answers("upgrade")) > 0 {
			f.Errorf("annotations %v: %+v", f.machinePool().Annotations, o)
		}
	})
}
