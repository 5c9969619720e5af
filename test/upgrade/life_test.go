// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"encoding/json"
	"slices"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	name     = "prod"
	identity = "portal-identity"
)

// life is one Cluster in its own namespace, under its own portal account.
type life struct {
	phase
	*suite.Fixture
	suite.Objects

	machines, instances []string // at the moment of the upgrade
	spec                infrav1.PortalControlPlaneSpec
	inFlight            string // operation in flight, as the previous release wrote it
}

// enter creates the Cluster with two workers, and brings it into its phase.
func (l *life) enter() {
	l.Objects = suite.NewObjects(metav1.ObjectMeta{Namespace: l.Namespace, Name: name}, identity)
	if l.with != nil {
		l.with(l)
	}
	if l.fresh {
		l.strike()
	}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.Namespace}}, l.IdentitySecret(identity),
		l.Cluster, l.PortalCluster, l.ControlPlane, l.Bootstrap, l.Template, l.Deployment,
	} {
		l.Create(o)
	}
	if !l.fresh {
		l.settled(2)
		l.strike()
	}
	if l.begin != nil {
		l.begin(l)
	}
}

func (l *life) strike() {
	if l.fault != nil {
		l.fault.ID, l.fault.Account = l.name, l.name
		l.Expect(box.Portal.Inject(*l.fault)).To(Succeed())
	}
}

// leave ends the phase, and waits until the Cluster has completed it.
func (l *life) leave() {
	box.Portal.RemoveFault(l.name)
	if l.release != nil {
		l.release(l)
	}
	l.ended(l)
	l.Expect(l.Changes()).To(Equal(l.asked), "requests that change something, of the whole life")
	if !l.rolls && len(l.machines) > 0 {
		l.Expect(l.machines).To(ContainElements(l.present()), "Machines that are left, of those before the upgrade")
	}
}

// snapshot records the existing objects, and checks that the portal received the requests of the phase.
func (l *life) snapshot() {
	l.machines, l.instances = l.present(), l.running()
	l.Get(l.ControlPlane)
	l.spec, l.inFlight = l.ControlPlane.Spec, l.operation()
	l.Expect(l.asked).To(ContainElements(l.Changes()))
}

// unchanged compares the current state with the snapshot.
func (l *life) unchanged() {
	l.Expect(l.running()).To(Equal(l.instances), "machines of the portal")
	l.Get(l.ControlPlane)
	l.Expect(l.ControlPlane.Spec).To(Equal(l.spec), "spec of the PortalControlPlane")
	if l.inFlight != "" {
		l.Expect(idOf(l, l.operation())).To(Equal(idOf(l, l.inFlight)), "operation in flight")
	}
	if l.release != nil && !l.rolls { // the node of a Machine that is rolled out stays, so core does not wait for its hooks
		l.deletingMachine()
	}
	if !l.rolls {
		l.Expect(l.present()).To(Equal(l.machines), "Machines")
	}
	l.Expect(len(l.Left(&infrav1.PortalMachineTemplateList{}))).To(BeNumerically("<=", 1), "PortalMachineTemplates")
}

// present returns the Machines that are not being deleted, and their PortalMachines, with their UIDs.
func (l *life) present() []string {
	infra := &infrav1.PortalMachineList{}
	l.List(infra)
	all, stays := []string{}, map[string]bool{}
	for _, m := range l.Machines() {
		if m.DeletionTimestamp.IsZero() {
			all, stays[m.Name] = append(all, "Machine "+m.Name+" "+string(m.UID)), true
		}
	}
	for _, m := range infra.Items {
		if stays[m.Name] {
			all = append(all, "PortalMachine "+m.Name+" "+string(m.UID))
		}
	}
	slices.Sort(all)
	return all
}

// running returns the ids of the account's machines at the portal.
func (l *life) running() []string {
	var all []string
	for _, i := range box.Portal.Instances() {
		if i.Account == l.name {
			all = append(all, i.ID)
		}
	}
	slices.Sort(all)
	return all
}

// settled waits until the Cluster is available with that many ready Machines and no others.
func (l *life) settled(workers int) {
	l.Helper()
	l.AwaitReady(l.Cluster, workers)
	l.Eventually(l.Machines).Should(HaveLen(workers))
	l.Eventually(l.Condition(l.ControlPlane, infrav1.WorkersReadyCondition)).Should(HavePrefix("True"))
}

func (l *life) sees(condition, reason string) {
	l.Helper()
	l.Eventually(l.Condition(l.ControlPlane, condition)).Should(HavePrefix("False " + reason))
}

// operation returns the operation in flight as the running release has written it.
func (l *life) operation() string {
	l.Get(l.ControlPlane)
	return l.ControlPlane.Annotations[infrav1.OperationAnnotation]
}

// idOf returns the id of the operation in an annotation.
func idOf(l *life, annotation string) string {
	var op struct{ ID string }
	l.Expect(json.Unmarshal([]byte(annotation), &op)).To(Succeed(), "operation %q", annotation)
	return op.ID
}

// accepted waits until an operation of the type has a job at the portal.
func (l *life) accepted(kind string) {
	l.Helper()
	l.Eventually(l.operation).Should(SatisfyAll(ContainSubstring(`"type":"`+kind+`"`), ContainSubstring(`"jobID":"`)))
}
