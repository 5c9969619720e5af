// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"net/http"
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
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

var poolKey = client.ObjectKey{Namespace: prod.Namespace, Name: "pool"}

// withPool runs the test in a bubble of its own, with a MachinePool without replicas of its own, of which core knows a Node that exists and one
// that does not.
func withPool(t *testing.T, annotations map[string]string, test func(f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 2, emulator.Durations{Upgrade: 2 * time.Minute})
		meta := metav1.ObjectMeta{Namespace: poolKey.Namespace, Name: poolKey.Name, Labels: map[string]string{clusterv1.ClusterNameLabel: prod.Name}}
		mp := &clusterv1.MachinePool{ObjectMeta: meta}
		mp.Annotations = annotations
		mp.Finalizers, mp.Spec.Replicas = []string{clusterv1.MachinePoolFinalizer}, ptr.To[int32](0)
		mp.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: workers.PoolKind, Name: poolKey.Name}
		worker := f.workers()[0]
		mp.Status.NodeRefs = []corev1.ObjectReference{{Name: "gone", UID: "gone"}, {Name: worker.Name, UID: worker.UID}}
		f.must(f.store.Create(t.Context(), mp))
		f.must(f.store.Create(t.Context(), &infrav1.PortalMachinePool{ObjectMeta: meta}))
		f.must(f.store.Status().Update(t.Context(), mp))
		test(f)
	})
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
func (f *fixture) corePauses(paused bool) {
	f.Helper()
	mp := f.machinePool()
	status := map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[paused]
	conditions.Set(mp, metav1.Condition{Type: clusterv1.PausedCondition, Status: status, Reason: "Core"})
	f.must(f.store.Status().Update(f.Context(), mp))
}

// TestUpgradePausesPool checks that core has paused the MachinePool before the portal is asked to upgrade, and that it is resumed without
// nodeRefs when the upgrade has ended. Without an upgrade, only nodeRefs to Nodes that are gone are removed.
func TestUpgradePausesPool(t *testing.T) {
	withPool(t, nil, func(f *fixture) {
		f.corePauses(false)
		f.pass()
		if refs := f.machinePool().Status.NodeRefs; len(refs) != 1 || refs[0].UID != f.workers()[0].UID {
			f.Errorf("nodeRefs %v", refs)
		}
		f.upgrade(after)
		for range 3 { // core takes its time
			o := f.pass().outcomes[infrav1.VersionUpToDateCondition]
			if !f.poolPaused() || len(f.answers("upgrade")) > 0 || !says(o, infrav1.WaitingForOperationReason, "MachinePool pool") {
				f.Fatalf("annotations %v, asked %v: %+v", f.machinePool().Annotations, f.answers("upgrade"), o)
			}
		}
		f.corePauses(true)
		s := f.pass()
		if len(f.answers("upgrade")) != 1 || !s.Op().Is(operation.Upgrade) {
			f.Fatalf("the portal was not asked: %+v", s.outcomes[infrav1.VersionUpToDateCondition])
		}
		for s = f.pass(); s.Op() != nil; s = f.pass() {
			if !f.poolPaused() {
				f.Fatal("the MachinePool was resumed during the upgrade")
			}
			time.Sleep(4 * time.Second)
		}
		if mp := f.machinePool(); f.poolPaused() || len(mp.Status.NodeRefs) > 0 || !f.allRun(after) {
			f.Errorf("annotations %v, nodeRefs %v", mp.Annotations, mp.Status.NodeRefs)
		}
	})
}

// TestNoPause checks when an upgrade does not wait for core, and which pause the provider leaves alone.
func TestNoPause(t *testing.T) {
	users := map[string]string{clusterv1.PausedAnnotation: ""}
	for title, test := range map[string]struct {
		annotations map[string]string
		prepare     func(*fixture)
	}{
		"core has never seen the MachinePool": {users, func(*fixture) {}},
		"a user has paused it":                {users, func(f *fixture) { f.corePauses(true) }},
		"the provider sets the providerIDs": {nil, func(f *fixture) {
			f.nodes.ids = func(m emulator.Node) string { return "portal://" + f.id + "/" + m.Name }
			for _, m := range f.portal.Clusters()[0].Nodes {
				f.changeNode(m.Name, func(n *corev1.Node) { n.Spec.ProviderID = f.nodes.ids(m) })
			}
		}},
	} {
		t.Run(title, func(t *testing.T) {
			withPool(t, test.annotations, func(f *fixture) {
				test.prepare(f)
				f.upgrade(after)
				f.pass()
				time.Sleep(time.Hour)
				f.pass()
				_, paused := f.machinePool().Annotations[clusterv1.PausedAnnotation]
				if asked := f.answers("upgrade"); len(asked) != 1 || paused != (test.annotations != nil) {
					t.Errorf("asked %v, paused %t", asked, paused)
				}
			})
		})
	}
}

// TestDeletedClusterIsReleased checks that core can delete the objects of a Cluster: its MachinePool is not left paused, core knows no earlier Node of
// it by name, and core waits for no hook of the provider.
func TestDeletedClusterIsReleased(t *testing.T) {
	withPool(t, map[string]string{clusterv1.PausedAnnotation: "portal-upgrade"}, func(f *fixture) {
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

// TestRefusedUpgradeResumesPool checks that the MachinePool is not paused while the portal refuses the upgrade. The last pass may have paused it for
// an attempt of the next.
func TestRefusedUpgradeResumesPool(t *testing.T) {
	withPool(t, nil, func(f *fixture) {
		f.strike(emulator.Fault{Path: routeUpgrade, Code: emulator.CodeQuotaExceeded})
		f.upgrade(after)
		paused := 0
		for range 6 * 60 {
			f.pass()
			if f.poolPaused() {
				paused++
			}
			f.corePauses(f.poolPaused())
			time.Sleep(time.Minute)
		}
		if asked := len(f.answers("upgrade")); asked < 10 || paused > asked+1 {
			f.Errorf("paused after %d passes of 360, and the portal was asked %d times", paused, asked)
		}
	})
}

// TestPauseSurvivesRateLimit checks that a request that waits for the rate limit does not end the pause that core has confirmed.
func TestPauseSurvivesRateLimit(t *testing.T) {
	withPool(t, nil, func(f *fixture) {
		f.upgrade(after)
		f.corePauses(false)
		f.pass()
		time.Sleep(3 * time.Minute) // the list of versions has to be read again
		f.corePauses(true)
		f.strike(emulator.Fault{Path: "/kubernetes-versions", Status: http.StatusTooManyRequests, Count: 1})
		f.pass()
		if !f.poolPaused() {
			f.Error("the MachinePool was resumed")
		}
	})
}

// TestDeletedPoolIsNotPaused checks that an upgrade waits for the deletion of a MachinePool. Core would not delete a paused one.
func TestDeletedPoolIsNotPaused(t *testing.T) {
	withPool(t, nil, func(f *fixture) {
		f.must(f.store.Delete(f.Context(), f.machinePool()))
		f.upgrade(after)
		o := f.pass().outcomes[infrav1.VersionUpToDateCondition]
		if f.poolPaused() || o.Reason != infrav1.WaitingForOperationReason || len(f.answers("upgrade")) > 0 {
			f.Errorf("annotations %v: %+v", f.machinePool().Annotations, o)
		}
	})
}
