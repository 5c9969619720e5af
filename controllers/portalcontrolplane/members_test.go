// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"
	"testing/synctest"
	"time"

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

// TestCorrectMembers: MachineSets and Machines get the UIDs of their present owners, unless they are being deleted.
func TestCorrectMembers(t *testing.T) {
	tests := map[string]struct {
		kind, name     string // of the owner
		deleted, other bool   // the member is being deleted, or is of another provider
		want           types.UID
	}{
		"of a MachineDeployment":   {kind: "MachineDeployment", name: "md", want: "present"},
		"of the Cluster":           {kind: "Cluster", name: prod.Name, want: "present"},
		"of one that is gone":      {kind: "MachineDeployment", name: "gone", want: "earlier"},
		"of another kind":          {kind: "MachinePool", name: "md", want: "earlier"},
		"deleted by the collector": {kind: "MachineDeployment", name: "md", deleted: true, want: "earlier"},
		"of another provider":      {kind: "MachineDeployment", name: "md", other: true, want: "earlier"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 1, emulator.Durations{})
				meta := func(name string, owner ...metav1.OwnerReference) metav1.ObjectMeta {
					return metav1.ObjectMeta{
						Namespace: prod.Namespace, Name: name, UID: "present", Labels: map[string]string{clusterv1.ClusterNameLabel: prod.Name},
						OwnerReferences: owner, Finalizers: []string{"a/b"},
					}
				}
				earlier := func(kind, name string) metav1.OwnerReference {
					return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: name, UID: "earlier", Controller: ptr.To(true)}
				}
				cluster, md := &clusterv1.Cluster{ObjectMeta: meta(prod.Name)}, &clusterv1.MachineDeployment{ObjectMeta: meta("md")}
				set := &clusterv1.MachineSet{ObjectMeta: meta("ms", earlier(test.kind, test.name))}
				set.Spec.Template.Spec.InfrastructureRef.Kind = templateKind
				machine := &clusterv1.Machine{ObjectMeta: meta("m", earlier("MachineSet", "ms"))}
				machine.Spec.InfrastructureRef.Kind = machineKind
				if test.other {
					set.Spec.Template.Spec.InfrastructureRef.Kind, machine.Spec.InfrastructureRef.Kind = "OtherTemplate", "OtherMachine"
				}
				for _, object := range []client.Object{cluster, md, set, machine} {
					if err := f.store.Create(t.Context(), object); err != nil {
						t.Fatal(err)
					}
				}
				if test.deleted {
					if err := f.store.Delete(t.Context(), set); err != nil {
						t.Fatal(err)
					}
				}
				all, err := readMembers(t.Context(), f.store, cluster)
				if err != nil {
					t.Fatal(err)
				}
				if err := f.manager.correctMembers(t.Context(), cluster, all); err != nil {
					t.Fatal(err)
				}
				for object, want := range map[client.Object]types.UID{set: test.want, machine: map[bool]types.UID{false: "present", true: "earlier"}[test.other]} {
					if err := f.store.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
						t.Fatal(err)
					}
					if got := object.GetOwnerReferences()[0]; got.UID != want || !*got.Controller {
						t.Errorf("the owner of %s is %+v", object.GetName(), got)
					}
				}
			})
		})
	}
}

// TestCollectedDeploymentsKeepTheirWorkers makes the garbage collector delete MachineDeployments, one after the other. The portal
// is never asked for fewer workers, neither in between nor when all are gone.
func TestCollectedDeploymentsKeepTheirWorkers(t *testing.T) {
	for title, test := range map[string]struct {
		owner  types.UID
		scales int
	}{"collector": {"earlier", 0}, "a person": {"", 1}} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 4, emulator.Durations{})
				f.change(func(cp *infrav1.PortalControlPlane) {
					putRecord(cp, operation.Record{Size: 4, Version: before, Workers: &infrav1.WorkerParameters{}})
				})
				md := &clusterv1.MachineDeployment{}
				if err := f.store.Get(t.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: deployment}, md); err != nil {
					t.Fatal(err)
				}
				md.Spec.Replicas, md.OwnerReferences, md.Finalizers = ptr.To[int32](1), owner(test.owner), []string{"a/b"}
				if err := f.store.Update(t.Context(), md); err != nil {
					t.Fatal(err)
				}
				second := md.DeepCopy()
				second.Name, second.ResourceVersion, second.Spec.Replicas = "second", "", ptr.To[int32](3)
				if err := f.store.Create(t.Context(), second); err != nil {
					t.Fatal(err)
				}
				for _, gone := range []*clusterv1.MachineDeployment{second, md} {
					if err := f.store.Delete(t.Context(), gone); err != nil {
						t.Fatal(err)
					}
				}
				f.live(5 * time.Minute)
				if s := f.pass(); test.scales == 0 {
					o := s.outcomes[infrav1.WorkersReadyCondition]
					if o.Kind != outcome.Stalled || o.Reason != infrav1.DeletionNotConfirmedReason {
						t.Errorf("%+v", o)
					}
				}
				for _, gone := range []*clusterv1.MachineDeployment{second, md} {
					if err := f.store.Get(t.Context(), client.ObjectKeyFromObject(gone), gone); err != nil {
						t.Fatal(err)
					}
					gone.Finalizers = nil
					if err := f.store.Update(t.Context(), gone); err != nil {
						t.Fatal(err)
					}
					f.live(5 * time.Minute)
				}
				if got := min(len(f.answers("scale")), 1); got != test.scales {
					t.Errorf("the portal was asked to scale: %v", f.answers("scale"))
				}
			})
		})
	}
}

// live runs passes for some time.
func (f *fixture) live(span time.Duration) {
	f.Helper()
	f.passes(span, 4*time.Second)
}
