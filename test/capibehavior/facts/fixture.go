// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

const (
	// clusterName is the name of every Cluster. Each Cluster has a namespace of its own.
	clusterName = "fact"
	// version is the first version of control planes and Machines. newer is one minor version later.
	version, newer = "v1.35.6", "v1.36.3"
	// fixtureLabel marks the Nodes of a fixture.
	fixtureLabel = "fact"
	// finalizer acts as a real provider's finalizer.
	finalizer = "fact.example/finalizer"
)

// fixture is a provisioned Cluster. The fact takes the part of its infrastructure and control plane providers.
type fixture struct {
	Floor
	*WithT

	namespace    string
	cluster      *clusterv1.Cluster
	controlPlane *infrav1.PortalControlPlane

	machines *history[*clusterv1.Machine]
	nodes    *history[*corev1.Node]
}

// newFixture creates a Cluster in the namespace of the fact, and waits until it is initialized.
func newFixture(floor Floor, fact Fact) *fixture {
	floor.Helper()
	f := &fixture{Floor: floor, WithT: NewWithT(floor), namespace: fact.Name}
	f.machines = observe[*clusterv1.Machine](f, &clusterv1.MachineList{}, client.InNamespace(f.namespace))
	f.nodes = observe[*corev1.Node](f, &corev1.NodeList{}, client.MatchingLabels{fixtureLabel: f.namespace})
	status := stable(version)
	if fact.status != nil {
		fact.status(&status)
	}
	f.createCluster(status)
	f.Eventually(f.condition(f.cluster, clusterv1.ClusterInfrastructureReadyCondition)).Should(HavePrefix("True"))
	f.Eventually(f.condition(f.cluster, clusterv1.ClusterControlPlaneInitializedCondition)).Should(HavePrefix("True"))
	return f
}

// Eventually is that of the floor.
func (f *fixture) Eventually(actual any) AsyncAssertion {
	f.Helper()
	return f.Floor.Eventually(actual)
}

// client returns a client of the cluster that has the object.
func (f *fixture) client(o client.Object) client.Client {
	switch o.(type) {
	case *corev1.Node, *corev1.Pod, *policyv1.PodDisruptionBudget:
		workload, _ := f.Workload()
		return workload
	}
	return f.Management()
}

func (f *fixture) create(o client.Object) {
	f.Helper()
	f.Expect(f.client(o).Create(f.Context(), o)).To(Succeed())
}

// get reads an object again.
func (f *fixture) get(o client.Object) {
	f.Helper()
	f.Expect(f.client(o).Get(f.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
}

func (f *fixture) delete(o client.Object) {
	f.Helper()
	f.Expect(client.IgnoreNotFound(f.client(o).Delete(f.Context(), o))).To(Succeed())
}

// exists returns a function that reads an object again, and reports whether it exists.
func (f *fixture) exists(o client.Object) func() bool {
	return func() bool {
		err := f.client(o).Get(f.Context(), client.ObjectKeyFromObject(o), o)
		f.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return err == nil
	}
}

// condition returns a function that reads a condition as "Status Reason: message".
func (f *fixture) condition(o conditions.Getter, conditionType string) func() string {
	return func() string {
		object, _ := o.(client.Object)
		f.get(object)
		c := conditions.Get(o, conditionType)
		if c == nil {
			return "none"
		}
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
}

// observed waits until core has set the condition of the object as it is now. It does not look at status.observedGeneration, which stays behind if
// a pass fails after it has written everything else: the next pass finds nothing to write.
func (f *fixture) observed(o conditions.Getter, conditionType string) {
	f.Helper()
	object, _ := o.(client.Object)
	f.Eventually(func() bool {
		f.get(object)
		c := conditions.Get(o, conditionType)
		return c != nil && c.ObservedGeneration >= object.GetGeneration()
	}).Should(BeTrue(), "core has read %s", object.GetName())
}

// change reads an object and patches it. changeStatus patches its status.
func change[T client.Object](f *fixture, o T, change func(T)) {
	f.Helper()
	changeWith(f, f.client(o).Patch, o, change)
}

func changeStatus[T client.Object](f *fixture, o T, change func(T)) {
	f.Helper()
	changeWith(f, f.client(o).Status().Patch, o, change)
}

func changeWith[T client.Object, O any](f *fixture, patch func(context.Context, client.Object, client.Patch, ...O) error, o T, change func(T)) {
	f.Helper()
	f.Eventually(func() error {
		if err := f.client(o).Get(f.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before, _ := o.DeepCopyObject().(client.Object)
		change(o)
		return patch(f.Context(), o, client.MergeFrom(before))
	}).Should(Succeed())
}

// stable returns the status of a control plane that runs a version, as our provider reports it.
func stable(version string) infrav1.PortalControlPlaneStatus {
	return infrav1.PortalControlPlaneStatus{
		Initialization:              infrav1.PortalControlPlaneInitialization{ControlPlaneInitialized: ptr.To(true)},
		ExternalManagedControlPlane: ptr.To(true),
		Version:                     version,
		Versions:                    []clusterv1.StatusVersion{{Version: version, Replicas: 1}},
		Replicas:                    ptr.To[int32](1), ReadyReplicas: ptr.To[int32](1),
		AvailableReplicas: ptr.To[int32](1), UpToDateReplicas: ptr.To[int32](1),
	}
}

func (f *fixture) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: f.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName},
	}
}

func (f *fixture) createCluster(status infrav1.PortalControlPlaneStatus) {
	f.Helper()
	secret := &corev1.Secret{ObjectMeta: f.meta(clusterName + "-kubeconfig"), Type: clusterv1.ClusterSecretType}
	_, kubeconfig := f.Workload()
	secret.Data = map[string][]byte{"value": kubeconfig}
	f.create(secret)
	f.cluster = &clusterv1.Cluster{ObjectMeta: f.meta(clusterName), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: ref("PortalCluster", clusterName), ControlPlaneRef: ref("PortalControlPlane", clusterName),
	}}
	f.create(f.cluster)
	portalCluster := &infrav1.PortalCluster{ObjectMeta: f.meta(clusterName), Spec: infrav1.PortalClusterSpec{
		IdentityRef: infrav1.PortalIdentityReference{Name: "none"}, ZoneID: "zone-1", VPC: infrav1.PortalVPC{Name: "default"},
	}}
	f.create(portalCluster)
	changeStatus(f, portalCluster, func(c *infrav1.PortalCluster) { c.Status.Initialization.Provisioned = ptr.To(true) })
	f.controlPlane = &infrav1.PortalControlPlane{ObjectMeta: f.meta(clusterName), Spec: infrav1.PortalControlPlaneSpec{
		Version: version, Replicas: ptr.To[int32](1), ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443},
	}}
	f.create(f.controlPlane)
	changeStatus(f, f.controlPlane, func(c *infrav1.PortalControlPlane) { c.Status = status })
}

// readControlPlane waits until core has read the control plane as it is now. Core copies its replicas to the Cluster.
func (f *fixture) readControlPlane() {
	f.Helper()
	changeStatus(f, f.controlPlane, func(c *infrav1.PortalControlPlane) { *c.Status.Replicas++ })
	f.Eventually(func() *int32 { f.get(f.cluster); return f.cluster.Status.ControlPlane.Replicas }).Should(HaveValue(Equal(*f.controlPlane.Status.Replicas)))
}

func ref(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name}
}
