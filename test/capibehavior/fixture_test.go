// SPDX-License-Identifier: Apache-2.0

package capibehavior

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
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

// fixture is a provisioned Cluster. The test takes the part of its infrastructure and control plane providers.
type fixture struct {
	*suite.Fixture

	cluster      *clusterv1.Cluster
	controlPlane *infrav1.PortalControlPlane

	machines *history[*clusterv1.Machine]
	nodes    *history[*corev1.Node]
}

// newFixture creates a Cluster in a new namespace, with a control plane of the given status, and waits until it is initialized.
func newFixture(t *testing.T, namespace string, status infrav1.PortalControlPlaneStatus) *fixture {
	t.Helper()
	t.Parallel()
	f := &fixture{Fixture: suite.NewFixture(t, box, emulator.User{ID: namespace})}
	f.machines = observe[*clusterv1.Machine](f, &clusterv1.MachineList{}, client.InNamespace(namespace))
	f.nodes = observe[*corev1.Node](f, &corev1.NodeList{}, client.MatchingLabels{fixtureLabel: namespace})
	f.createCluster(status)
	f.Eventually(f.Condition(f.cluster, clusterv1.ClusterInfrastructureReadyCondition)).Should(HavePrefix("True"))
	f.Eventually(f.Condition(f.cluster, clusterv1.ClusterControlPlaneInitializedCondition)).Should(HavePrefix("True"))
	return f
}

// in returns the same fixture for a subtest, which it marks as parallel.
func (f *fixture) in(t *testing.T) *fixture {
	t.Parallel()
	sub, inner := *f, *f.Fixture
	inner.T, inner.WithT = t, suite.Patient(t)
	sub.Fixture = &inner
	return &sub
}

func (f *fixture) delete(o client.Object) {
	f.Helper()
	f.Expect(client.IgnoreNotFound(live.Delete(f.Context(), o))).To(Succeed())
}

// exists returns a function that reads the object and reports whether it exists.
func (f *fixture) exists(o client.Object) func() bool {
	return func() bool {
		err := live.Get(f.Context(), client.ObjectKeyFromObject(o), o)
		f.Expect(client.IgnoreNotFound(err)).To(Succeed())
		return err == nil
	}
}

// changeStatus reads an object and patches its status.
func changeStatus[T client.Object](f *fixture, o T, change func(T)) {
	f.Helper()
	f.Eventually(func() error {
		if err := live.Get(f.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before, _ := o.DeepCopyObject().(client.Object)
		change(o)
		return live.Status().Patch(f.Context(), o, client.MergeFrom(before))
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
		Namespace: f.Namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName},
	}
}

func (f *fixture) createCluster(status infrav1.PortalControlPlaneStatus) {
	f.Helper()
	secret := &corev1.Secret{ObjectMeta: f.meta(clusterName + "-kubeconfig"), Type: clusterv1.ClusterSecretType}
	secret.Data = map[string][]byte{"value": kubeconfig}
	f.Create(secret)
	objects := suite.NewObjects(f.meta(clusterName), "none")
	f.cluster, f.controlPlane = objects.Cluster, objects.ControlPlane
	f.controlPlane.Spec.Version = version
	f.controlPlane.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443}
	f.Create(f.cluster)
	f.Create(objects.PortalCluster)
	changeStatus(f, objects.PortalCluster, func(c *infrav1.PortalCluster) { c.Status.Initialization.Provisioned = ptr.To(true) })
	f.Create(f.controlPlane)
	changeStatus(f, f.controlPlane, func(c *infrav1.PortalControlPlane) { c.Status = status })
}

func ref(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name}
}
