// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// TestCollectedDeploymentsKeepTheirWorkers deletes MachineDeployments, one after the other. If the garbage collector does, or someone does
// although the Cluster is protected, or who deletes the namespace, the portal is never asked for fewer workers, and no node is drained, neither
// in between nor when all are gone. If a person replaces them in the meantime, it is not asked for more workers either.
func TestCollectedDeploymentsKeepTheirWorkers(t *testing.T) {
	type row struct {
		owner     types.UID
		replaced  bool
		protected bool
		ending    bool          // the namespace is being deleted
		apart     time.Duration // between the deletions
		kind      outcome.Kind
		holds     string // the reason, or "" if the portal is asked
	}
	cases(t, map[string]row{
		"collector":                             {owner: "earlier", kind: outcome.Stalled, holds: infrav1.DeletionNotConfirmedReason},
		"collector, and a person replaces them": {owner: "earlier", replaced: true, kind: outcome.Stalled, holds: infrav1.DeletionNotConfirmedReason},
		"of a protected Cluster":                {protected: true, kind: outcome.Wait, holds: infrav1.WaitingForObjectReason},
		"of a protected Cluster, minutes apart": {protected: true, apart: 2 * time.Minute, kind: outcome.Wait, holds: infrav1.WaitingForObjectReason},
		"with the namespace, which ends later":  {ending: true, kind: outcome.Blocked, holds: infrav1.DeletingReason},
		"with the namespace, minutes apart":     {ending: true, apart: 2 * time.Minute, kind: outcome.Blocked, holds: infrav1.DeletingReason},
		"a person":                              {},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 4, emulator.Durations{})
		f.change(func(cp *infrav1.PortalControlPlane) {
			putRecord(cp, operation.Record{Size: 4, Version: before, Workers: &infrav1.WorkerParameters{}})
		})
		md := f.editDeployment(func(md *clusterv1.MachineDeployment) {
			md.Spec.Replicas, md.OwnerReferences, md.Finalizers = ptr.To[int32](1), owner(test.owner), []string{"a/b"}
		})
		second := md.DeepCopy()
		second.Name, second.ResourceVersion, second.Spec.Replicas = "second", "", ptr.To[int32](3)
		f.must(f.store.Create(t.Context(), second))
		deleted := []client.Object{second, md}
		if test.protected {
			f.annotations = map[string]string{infrav1.DeletionProtectionAnnotation: "true"}
		}
		if test.ending {
			f.endNamespace()
		}
		for _, gone := range deleted {
			f.must(f.store.Delete(t.Context(), gone))
			f.live(test.apart)
		}
		if test.replaced {
			third := md.DeepCopy()
			third.Name, third.ResourceVersion, third.Spec.Replicas, third.OwnerReferences = "third", "", ptr.To[int32](4), nil
			f.must(f.store.Create(t.Context(), third))
		}
		f.live(5 * time.Minute)
		s := f.pass()
		if o := s.outcomes[infrav1.WorkersReadyCondition]; test.holds != "" && (o.Kind != test.kind || o.Reason != test.holds) {
			t.Errorf("%+v", o)
		}
		if names, _ := f.cordoned(); test.holds != "" && len(names) > 0 {
			t.Errorf("drained: %v", names)
		}
		for _, gone := range []*clusterv1.MachineDeployment{second, md} {
			f.must(f.store.Get(t.Context(), client.ObjectKeyFromObject(gone), gone))
			gone.Finalizers = nil
			f.must(f.store.Update(t.Context(), gone))
			f.live(5 * time.Minute)
		}
		if asked := len(f.answers("scale")) > 0; asked == (test.holds != "") {
			t.Errorf("the portal was asked to scale: %v", f.answers("scale"))
		}
	})
}

// endNamespace deletes the namespace of the Cluster. It is gone when its last object is.
func (f *fixture) endNamespace() {
	f.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: prod.Namespace, Finalizers: []string{"test/objects"}}}
	f.must(f.store.Create(f.Context(), namespace))
	f.must(f.store.Delete(f.Context(), namespace))
}

// live runs passes for some time.
func (f *fixture) live(span time.Duration) {
	f.Helper()
	f.passes(span, 4*time.Second)
}

// TestHoldsBeforeItBinds: no Machine is bound, and the portal is asked for nothing, while control nodes may be taken for workers.
func TestHoldsBeforeItBinds(t *testing.T) {
	now := ""
	withFixture(t, &now, func(f *fixture) {
		control := &corev1.NodeList{}
		f.must(f.nodes.List(f.Context(), control))
		for i := range control.Items {
			control.Items[i].Labels = nil
			f.must(f.nodes.Update(f.Context(), &control.Items[i]))
		}
		create := operation.New(operation.Create, "prod")
		create.Result = operation.Succeeded
		f.change(func(cp *infrav1.PortalControlPlane) {
			put(cp, create)
			cp.Spec.Replicas = ptr.To[int32](1)
		})
		f.scale(5)
		for range 3 {
			s := f.pass()
			if o := s.outcomes[infrav1.WorkersReadyCondition]; o.Reason != infrav1.WorkersUnrecognizedReason {
				t.Errorf("%+v", o)
			}
		}
		if got := f.answers("scale"); len(got) != 0 {
			t.Errorf("scale: %q", got)
		}
	})
}

// machine adds a Machine and its PortalMachine.
func (f *fixture) machine(name string, change func(*clusterv1.Machine)) {
	f.Helper()
	meta := metav1.ObjectMeta{Namespace: prod.Namespace, Name: name, Labels: map[string]string{
		clusterv1.ClusterNameLabel: prod.Name, clusterv1.MachineDeploymentNameLabel: deployment,
	}}
	m := &clusterv1.Machine{ObjectMeta: meta}
	set := metav1.ObjectMeta{Name: "set", UID: "uid-set"}
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&set, clusterv1.GroupVersion.WithKind("MachineSet"))}
	m.Spec.ClusterName, m.Spec.Bootstrap.DataSecretName = prod.Name, ptr.To("")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "PortalMachine", Name: name}
	change(m)
	f.must(f.store.Create(f.Context(), m))
	f.must(f.store.Create(f.Context(), &infrav1.PortalMachine{ObjectMeta: meta}))
}
