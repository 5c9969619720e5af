// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

const (
	name     = "prod"
	identity = "portal-identity"

	// patience is longer than core may take to connect to a workload cluster, even on a busy machine.
	patience = 6 * time.Minute
)

// life is one Cluster in its own namespace, under its own portal account.
type life struct {
	phase
	*testing.T
	*WithT

	secret        *corev1.Secret
	cluster       *clusterv1.Cluster
	portalCluster *infrav1.PortalCluster
	controlPlane  *infrav1.PortalControlPlane
	deployment    *clusterv1.MachineDeployment
	template      *infrav1.PortalMachineTemplate
	bootstrap     *infrav1.PortalBootstrapConfigTemplate

	machines, instances []string // at the moment of the upgrade
	spec                infrav1.PortalControlPlaneSpec
	inFlight            string // operation in flight, as the previous release wrote it
	fault               string // id of the phase's fault
}

func (l *life) namespace() string { return "phase-" + l.name }

func (l *life) compose() {
	meta := metav1.ObjectMeta{Namespace: l.namespace(), Name: name}
	ref := func(kind string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name}
	}
	l.secret = box.IdentitySecret(client.ObjectKey{Namespace: meta.Namespace, Name: identity})
	l.secret.StringData[infrav1.IdentityEmail], l.secret.StringData[infrav1.IdentityPassword] = l.email(), l.password()
	l.cluster = &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: ref("PortalCluster"), ControlPlaneRef: ref("PortalControlPlane"),
	}}
	l.portalCluster = &infrav1.PortalCluster{ObjectMeta: meta, Spec: infrav1.PortalClusterSpec{
		IdentityRef: infrav1.PortalIdentityReference{Name: identity}, ZoneID: "zone-1", VPC: infrav1.PortalVPC{Name: "default"},
	}}
	l.controlPlane = &infrav1.PortalControlPlane{ObjectMeta: meta, Spec: infrav1.PortalControlPlaneSpec{
		Version: "v1.35.6", Replicas: ptr.To[int32](1),
	}}
	l.template = &infrav1.PortalMachineTemplate{ObjectMeta: meta}
	l.template.Spec.Template.Spec = infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	l.bootstrap = &infrav1.PortalBootstrapConfigTemplate{ObjectMeta: meta}
	l.deployment = &clusterv1.MachineDeployment{ObjectMeta: meta, Spec: clusterv1.MachineDeploymentSpec{
		ClusterName: name, Replicas: ptr.To[int32](2),
		Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
			ClusterName: name, Version: "v1.35.6", InfrastructureRef: ref("PortalMachineTemplate"),
			Bootstrap: clusterv1.Bootstrap{ConfigRef: ref("PortalBootstrapConfigTemplate")},
		}},
	}}
}

// enter creates the Cluster with two workers, and brings it into its phase.
func (l *life) enter() {
	l.compose()
	if l.with != nil {
		l.with(l)
	}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace()}},
		l.secret, l.cluster, l.portalCluster, l.controlPlane, l.bootstrap, l.template, l.deployment,
	}
	if l.fresh {
		l.strike()
	}
	for _, o := range objects {
		l.Expect(box.Client.Create(l.Context(), o)).To(Succeed())
	}
	if !l.fresh {
		l.settled(2)
		l.strike()
	}
	if l.begin != nil {
		l.begin(l)
	}
}

// explain logs the state of a failed life.
func (l *life) explain() {
	if l.Failed() {
		l.Log(box.Describe(context.WithoutCancel(l.T.Context()), l.namespace(), l.name))
	}
}

func (l *life) strike() {
	if l.phase.fault == nil {
		return
	}
	fault := *l.phase.fault
	fault.ID, fault.Account = l.name, l.name
	l.Expect(box.Portal.Inject(fault)).To(Succeed())
	l.fault = fault.ID
}

// leave ends the phase, and waits until the Cluster has completed it.
func (l *life) leave() {
	if l.fault != "" {
		box.Portal.RemoveFault(l.fault)
	}
	if l.release != nil {
		l.release(l)
	}
	l.ended(l)
	l.Expect(l.requests()).To(Equal(l.asked), "requests that change something, of the whole life")
	if !l.rolls && len(l.machines) > 0 {
		l.Expect(l.machines).To(ContainElements(l.present()), "Machines that are left, of those before the upgrade")
	}
}

// snapshot records the existing objects, and checks that the portal received the requests of the phase.
func (l *life) snapshot() {
	l.machines, l.instances = l.present(), l.running()
	l.fetch(l.controlPlane)
	l.spec, l.inFlight = l.controlPlane.Spec, l.operation()
	l.Expect(l.asked).To(ContainElements(l.requests()))
}

// unchanged compares the current state with the snapshot.
func (l *life) unchanged() {
	l.Expect(l.running()).To(Equal(l.instances), "machines of the portal")
	l.fetch(l.controlPlane)
	l.Expect(l.controlPlane.Spec).To(Equal(l.spec), "spec of the PortalControlPlane")
	if l.inFlight != "" {
		l.Expect(idOf(l, l.operation())).To(Equal(idOf(l, l.inFlight)), "operation in flight")
	}
	if l.release != nil && !l.rolls { // the node of a Machine that is rolled out stays, so core does not wait for its hooks
		l.deletingMachine()
	}
	if !l.rolls {
		l.Expect(l.present()).To(Equal(l.machines), "Machines")
	}
	templates := &infrav1.PortalMachineTemplateList{}
	l.Expect(box.Client.List(l.Context(), templates, client.InNamespace(l.namespace()))).To(Succeed())
	l.Expect(len(templates.Items)).To(BeNumerically("<=", 1), "PortalMachineTemplates")
}

// requests returns the account's requests that change something at the portal.
func (l *life) requests() []string {
	var all []string
	for _, e := range box.Portal.RequestLog() {
		if e.Account == l.name && (e.Method == "POST" || e.Method == "DELETE" || e.Method == "PUT" || e.Method == "PATCH") && e.Route != "/login" {
			all = append(all, fmt.Sprintf("%s %s %d", e.Method, e.Route, e.Status))
		}
	}
	return all
}

// present returns the Machines that are not being deleted, and their PortalMachines, with their UIDs.
func (l *life) present() []string {
	machines, infra := &clusterv1.MachineList{}, &infrav1.PortalMachineList{}
	l.Expect(box.Client.List(l.Context(), machines, client.InNamespace(l.namespace()))).To(Succeed())
	l.Expect(box.Client.List(l.Context(), infra, client.InNamespace(l.namespace()))).To(Succeed())
	all, stays := []string{}, map[string]bool{}
	for _, m := range machines.Items {
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
	l.Eventually(func() string {
		l.fetch(l.cluster)
		return conditions.GetMessage(l.cluster, clusterv1.ClusterAvailableCondition) + fmt.Sprint(conditions.IsTrue(l.cluster, clusterv1.ClusterAvailableCondition))
	}).Should(Equal("true"))
	l.Eventually(func() (got [2]int) {
		list := &clusterv1.MachineList{}
		l.Expect(box.Client.List(l.Context(), list, client.InNamespace(l.namespace()))).To(Succeed())
		for i := range list.Items {
			if conditions.IsTrue(&list.Items[i], clusterv1.MachineReadyCondition) {
				got[1]++
			}
		}
		got[0] = len(list.Items)
		return got
	}).Should(Equal([2]int{workers, workers}), "Machines, and those that are ready")
	l.Eventually(func() string { return l.condition(infrav1.WorkersReadyCondition) }).Should(HavePrefix("True"))
}

// condition returns a condition of the PortalControlPlane, with its reason.
func (l *life) condition(condition string) string {
	l.fetch(l.controlPlane)
	if c := conditions.Get(l.controlPlane, condition); c != nil {
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
	return "none"
}

func (l *life) sees(condition, reason string) {
	l.Helper()
	l.Eventually(func() string { return l.condition(condition) }).Should(HavePrefix("False " + reason))
}

func (l *life) fetch(o client.Object) {
	l.Helper()
	l.Expect(box.Client.Get(l.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
}

// operation returns the operation in flight as the running release has written it.
func (l *life) operation() string {
	l.fetch(l.controlPlane)
	return l.controlPlane.Annotations[infrav1.OperationAnnotation]
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
