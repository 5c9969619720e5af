// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

const (
	// clusterName is that of every Cluster; each has a namespace of its own.
	clusterName = "fact"
	// version is what control planes and Machines begin with, newer is a minor version later.
	version, newer = "v1.35.6", "v1.36.3"
	// worldLabel marks the Nodes of a world.
	worldLabel = "fact"
	// finalizer holds what a real provider would hold.
	finalizer = "fact.example/finalizer"
	// patience covers two of core's longest waits, 20 seconds, on a busy machine.
	patience = time.Minute
)

// world is a Cluster that is up, whose infrastructure and control plane provider is the test.
type world struct {
	*testing.T
	*WithT
	namespace string

	cluster      *clusterv1.Cluster
	controlPlane *infrav1.PortalControlPlane

	machines *history[*clusterv1.Machine]
	nodes    *history[*corev1.Node]
}

// begin brings up a Cluster in a namespace of that name, with a control plane in the given state.
func begin(t *testing.T, namespace string, status infrav1.PortalControlPlaneStatus) *world {
	t.Helper()
	w := (&world{namespace: namespace}).in(t)
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	w.machines = observe[*clusterv1.Machine](w, management, &clusterv1.MachineList{}, client.InNamespace(namespace))
	w.nodes = observe[*corev1.Node](w, workload, &corev1.NodeList{}, client.MatchingLabels{worldLabel: namespace})
	w.createCluster(status)
	w.Eventually(w.condition(w.cluster, clusterv1.ClusterInfrastructureReadyCondition)).Should(HavePrefix("True"))
	w.Eventually(w.condition(w.cluster, clusterv1.ClusterControlPlaneInitializedCondition)).Should(HavePrefix("True"))
	return w
}

// in is the same world for a subtest.
func (w *world) in(t *testing.T) *world {
	t.Parallel()
	sub := *w
	sub.T, sub.WithT = t, NewWithT(t)
	sub.SetDefaultEventuallyTimeout(patience)
	sub.SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	return &sub
}

// stable is the status of a control plane that runs a version, as ours reports it.
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

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: w.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName},
	}
}

func (w *world) createCluster(status infrav1.PortalControlPlaneStatus) {
	w.Helper()
	secret := &corev1.Secret{ObjectMeta: w.meta(clusterName + "-kubeconfig"), Type: clusterv1.ClusterSecretType}
	secret.Data = map[string][]byte{"value": kubeconfig}
	w.create(secret)
	w.cluster = &clusterv1.Cluster{ObjectMeta: w.meta(clusterName), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: ref("PortalCluster", clusterName), ControlPlaneRef: ref("PortalControlPlane", clusterName),
	}}
	w.create(w.cluster)
	infrastructure := &infrav1.PortalCluster{ObjectMeta: w.meta(clusterName), Spec: infrav1.PortalClusterSpec{
		IdentityRef: infrav1.PortalIdentityReference{Name: "none"}, ZoneID: "zone-1", VPC: infrav1.PortalVPC{Name: "default"},
	}}
	w.create(infrastructure)
	changeStatus(w, infrastructure, func(c *infrav1.PortalCluster) { c.Status.Initialization.Provisioned = ptr.To(true) })
	w.controlPlane = &infrav1.PortalControlPlane{ObjectMeta: w.meta(clusterName), Spec: infrav1.PortalControlPlaneSpec{
		Version: version, Replicas: ptr.To[int32](1),
		ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443},
	}}
	w.create(w.controlPlane)
	changeStatus(w, w.controlPlane, func(c *infrav1.PortalControlPlane) { c.Status = status })
}

func ref(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name}
}

func (w *world) create(o client.Object) {
	w.Helper()
	w.Expect(management.Create(w.Context(), o)).To(Succeed())
}

func (w *world) delete(o client.Object) {
	w.Helper()
	w.Expect(management.Delete(w.Context(), o)).To(Succeed())
}

// read brings an object up to date.
func (w *world) read(o client.Object) {
	w.Helper()
	w.Expect(management.Get(w.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
}

// condition reads a condition of an object as "Status Reason: message".
func (w *world) condition(o client.Object, conditionType string) func() string {
	return func() string {
		if err := management.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err.Error()
		}
		getter, _ := o.(conditions.Getter)
		c := conditions.Get(getter, conditionType)
		if c == nil {
			return "none"
		}
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
}

// gone tells whether an object is no more.
func (w *world) gone(o client.Object) func() bool {
	return func() bool {
		return apierrors.IsNotFound(management.Get(w.Context(), client.ObjectKeyFromObject(o), o))
	}
}

// change patches an object, and brings it up to date; changeStatus does so with its status.
func change[T client.Object](w *world, o T, change func(T)) {
	w.Helper()
	w.read(o)
	before, _ := o.DeepCopyObject().(client.Object)
	change(o)
	w.Expect(management.Patch(w.Context(), o, client.MergeFrom(before))).To(Succeed())
}

func changeStatus[T client.Object](w *world, o T, change func(T)) {
	w.Helper()
	w.read(o)
	before, _ := o.DeepCopyObject().(client.Object)
	change(o)
	w.Expect(management.Status().Patch(w.Context(), o, client.MergeFrom(before))).To(Succeed())
}
