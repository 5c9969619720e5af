// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestRollOutBesideUntriedCore starts a roll-out with surge, which is the default. Beside an untested core it waits, and the
// condition has the cause and the way out. As soon as core has a tested version, it goes on.
func TestRollOutBesideUntriedCore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 1, emulator.Durations{})
		problem := "core has version v1.15.0, but the provider was tested with 1.14 only"
		f.manager.CoreProblem = func(context.Context) string { return problem }
		f.machine("old", func(m *clusterv1.Machine) {
			conditions.Set(m, metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNotUpToDateReason})
		})
		f.pass()
		f.machine("new", func(*clusterv1.Machine) {})
		s := f.pass()
		c := conditions.Get(s.controlPlane, infrav1.WorkersReadyCondition)
		if c.Status != metav1.ConditionFalse || c.Reason != infrav1.CoreUnverifiedReason {
			t.Fatalf("%+v", c)
		}
		for _, words := range []string{problem, "maxSurge 0", "--allow-unverified-core"} {
			if !strings.Contains(c.Message, words) {
				t.Errorf("%q does not say %q", c.Message, words)
			}
		}
		problem = ""
		if s = f.pass(); len(s.plan.Moves) == 0 || s.plan.TakeoverBlocked {
			t.Errorf("the roll-out does not go on: %+v", s.plan)
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
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: machineKind, Name: name}
	change(m)
	if err := f.store.Create(f.Context(), m); err != nil {
		f.Fatal(err)
	}
	if err := f.store.Create(f.Context(), &infrav1.PortalMachine{ObjectMeta: meta}); err != nil {
		f.Fatal(err)
	}
}
