// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"errors"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestRollOutWithSurge starts a roll-out with surge, which is core's default. The new Machine takes over the node of the old one.
func TestRollOutWithSurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, emulator.Durations{})
		f.machine("old", func(m *clusterv1.Machine) {
			conditions.Set(m, metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNotUpToDateReason})
		})
		f.pass()
		f.machine("new", func(*clusterv1.Machine) {})
		f.pass()
		for name, first := range map[string]bool{"old": true, "new": false} {
			m, pm, key := &clusterv1.Machine{}, &infrav1.PortalMachine{}, client.ObjectKey{Namespace: prod.Namespace, Name: name}
			if err := errors.Join(f.store.Get(t.Context(), key, m), f.store.Get(t.Context(), key, pm)); err != nil {
				t.Fatal(err)
			}
			if _, marked := m.Annotations[clusterv1.DeleteMachineAnnotation]; marked != first || pm.Spec.Node == nil || pm.Spec.Node.Name != f.worker().Name {
				t.Errorf("%s: to be deleted first %v, on node %+v", name, marked, pm.Spec.Node)
			}
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
	if err := f.store.Create(f.Context(), m); err != nil {
		f.Fatal(err)
	}
	if err := f.store.Create(f.Context(), &infrav1.PortalMachine{ObjectMeta: meta}); err != nil {
		f.Fatal(err)
	}
}
