// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/persist"
)

// bindings is a Machine with its PortalMachine, as a plan has read them.
func bindings(t *testing.T) (Keeper, *scene) {
	t.Helper()
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: "m"}}
	machine.Spec.InfrastructureRef.Name = "c"
	claim := &infrav1.PortalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: "c"}}
	k := Keeper{Client: fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(machine, claim).Build()} // without Live, so nothing can be read
	s := &scene{Pass: pass.Pass{Cluster: &clusterv1.Cluster{}, ControlPlane: &infrav1.PortalControlPlane{}}}
	machines, claimed := &clusterv1.MachineList{}, &infrav1.PortalMachineList{}
	for _, list := range []client.ObjectList{machines, claimed} {
		if err := k.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	s.members.Machines, s.members.portalMachines = machines.Items, claimed.Items
	s.Writer = persist.Writer{Client: k.Client}
	return k, s
}

// machineWrite is a write that makes Machine m, which has neither a node nor hooks, what the change makes of it.
func machineWrite(step claims.Step, change func(*claims.Machine)) claims.Write {
	want := claims.Machine{Name: "m"}
	change(&want)
	return claims.Write{Step: step, Machine: claims.Change[claims.Machine]{Seen: claims.Machine{Name: "m"}, Want: want}}
}

var (
	hook = machineWrite(claims.WriteMachine, func(m *claims.Machine) { m.PreDrain, m.PreTerminate = true, true })
	bind = machineWrite(claims.WriteClaim, func(m *claims.Machine) { m.Claim.ProviderID, m.Claim.Name, m.Claim.UID = "portal:///w", "w", "uid-w" })
)

// TestMachineIsDeletedBeforeItIsBound checks that a Machine whose deletion the plan has not seen gets no node.
func TestMachineIsDeletedBeforeItIsBound(t *testing.T) {
	k, s := bindings(t)
	s.members.machine("m").DeletionTimestamp = &metav1.Time{Time: time.Now()}
	write := bind
	if _, err := k.write(t.Context(), &s.Pass, nil, s.members, &write); err != nil || write.Machine.Want != write.Machine.Seen {
		t.Errorf("%v; the plan is told of %+v", err, write.Machine.Want)
	}
	got := &infrav1.PortalMachine{}
	if err := k.Client.Get(t.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: "c"}, got); err != nil || got.Spec.Node != nil {
		t.Errorf("%v, bound to %+v", err, got.Spec.Node)
	}
}

// TestWritesOfChangedMachines checks that a Machine or PortalMachine that has changed since the plan was made is read again, and
// that the change is kept. If one is gone, the plan is made again.
func TestWritesOfChangedMachines(t *testing.T) {
	k, s := bindings(t)
	k.Live = k.Client
	for _, obj := range []client.Object{s.members.machine("m").DeepCopy(), s.members.portalMachine("c").DeepCopy()} {
		obj.SetLabels(map[string]string{"by": "somebody"})
		if err := k.Client.Update(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range []claims.Write{hook, bind} {
		if _, err := k.write(t.Context(), &s.Pass, nil, s.members, &w); err != nil {
			t.Errorf("%+v: %v", w, err)
		}
	}
	if m, c := s.members.machine("m"), s.members.portalMachine("c"); m.Labels["by"] == "" || len(m.Annotations) != 3 || c.Labels["by"] == "" || c.Spec.Node == nil {
		t.Errorf("%+v, %+v", m.ObjectMeta, c)
	}
	s.members.portalMachines = nil
	if _, err := k.write(t.Context(), &s.Pass, nil, s.members, &bind); !apierrors.IsNotFound(err) {
		t.Errorf("no PortalMachine: %v", err)
	}
	s.members.Machines = nil
	if _, err := k.write(t.Context(), &s.Pass, nil, s.members, &hook); !apierrors.IsNotFound(err) {
		t.Errorf("no Machine: %v", err)
	}
}
