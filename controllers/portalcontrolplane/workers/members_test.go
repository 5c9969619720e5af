// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
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
				store := fake.NewClientBuilder().WithScheme(newScheme(t)).Build()
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
				set.Spec.Template.Spec.InfrastructureRef.Kind = TemplateKind
				machine := &clusterv1.Machine{ObjectMeta: meta("m", earlier("MachineSet", "ms"))}
				machine.Spec.InfrastructureRef.Kind = machineKind
				if test.other {
					set.Spec.Template.Spec.InfrastructureRef.Kind, machine.Spec.InfrastructureRef.Kind = "OtherTemplate", "OtherMachine"
				}
				for _, object := range []client.Object{cluster, md, set, machine} {
					if err := store.Create(t.Context(), object); err != nil {
						t.Fatal(err)
					}
				}
				if test.deleted {
					if err := store.Delete(t.Context(), set); err != nil {
						t.Fatal(err)
					}
				}
				all, err := ReadMembers(t.Context(), store, cluster)
				if err != nil {
					t.Fatal(err)
				}
				if err := (Keeper{Client: store, Live: store}).CorrectMembers(t.Context(), cluster, all); err != nil {
					t.Fatal(err)
				}
				for object, want := range map[client.Object]types.UID{set: test.want, machine: map[bool]types.UID{false: "present", true: "earlier"}[test.other]} {
					if err := store.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
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
