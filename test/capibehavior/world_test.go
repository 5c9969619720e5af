// SPDX-License-Identifier: Apache-2.0

package capibehavior

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

const (
	// clusterName is the name of every Cluster. Each Cluster has a namespace of its own.
	clusterName = "fact"
	// version is the first version of control planes and Machines. newer is one minor version later.
	version, newer = "v1.35.6", "v1.36.3"
	// worldLabel marks the Nodes of a world.
	worldLabel = "fact"
	// finalizer stands in for a real provider's finalizer.
	finalizer = "fact.example/finalizer"
	// patience is several times core's longest wait of 20 seconds, for a busy host.
	patience = 3 * time.Minute
)

// world is a provisioned Cluster. The test takes the part of its infrastructure and control plane providers.
type world struct {
	*testing.T
	*WithT
	namespace string

	cluster      *clusterv1.Cluster
	controlPlane *infrav1.PortalControlPlane

	machines *history[*clusterv1.Machine]
	nodes    *history[*corev1.Node]
}

// begin creates a Cluster in a new namespace, with a control plane of the given status, and waits until it is initialized.
func begin(t *testing.T, namespace string, status infrav1.PortalControlPlaneStatus) *world {
	t.Helper()
	w := (&world{namespace: namespace}).in(t)
	w.create(management, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	w.machines = observe[*clusterv1.Machine](w, management, &clusterv1.MachineList{}, client.InNamespace(namespace))
	w.nodes = observe[*corev1.Node](w, workload, &corev1.NodeList{}, client.MatchingLabels{worldLabel: namespace})
	w.createCluster(status)
	w.Eventually(w.condition(w.cluster, clusterv1.ClusterInfrastructureReadyCondition)).Should(HavePrefix("True"))
	w.Eventually(w.condition(w.cluster, clusterv1.ClusterControlPlaneInitializedCondition)).Should(HavePrefix("True"))
	return w
}

// in returns the same world for a subtest, which it marks as parallel.
func (w *world) in(t *testing.T) *world {
	t.Parallel()
	sub := *w
	sub.T, sub.WithT = t, NewWithT(t)
	sub.SetDefaultEventuallyTimeout(patience)
	sub.SetDefaultEventuallyPollingInterval(250 * time.Millisecond)
	return &sub
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

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: w.namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: clusterName},
	}
}

func (w *world) createCluster(status infrav1.PortalControlPlaneStatus) {
	w.Helper()
	secret := &corev1.Secret{ObjectMeta: w.meta(clusterName + "-kubeconfig"), Type: clusterv1.ClusterSecretType}
	secret.Data = map[string][]byte{"value": kubeconfig}
	w.create(management, secret)
	w.cluster = &clusterv1.Cluster{ObjectMeta: w.meta(clusterName), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: ref("PortalCluster", clusterName), ControlPlaneRef: ref("PortalControlPlane", clusterName),
	}}
	w.create(management, w.cluster)
	infrastructure := &infrav1.PortalCluster{ObjectMeta: w.meta(clusterName), Spec: infrav1.PortalClusterSpec{
		IdentityRef: infrav1.PortalIdentityReference{Name: "none"}, ZoneID: "zone-1", VPC: infrav1.PortalVPC{Name: "default"},
	}}
	w.create(management, infrastructure)
	changeStatus(w, management, infrastructure, func(c *infrav1.PortalCluster) { c.Status.Initialization.Provisioned = ptr.To(true) })
	w.controlPlane = &infrav1.PortalControlPlane{ObjectMeta: w.meta(clusterName), Spec: infrav1.PortalControlPlaneSpec{
		Version: version, Replicas: ptr.To[int32](1),
		ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "127.0.0.1", Port: 6443},
	}}
	w.create(management, w.controlPlane)
	changeStatus(w, management, w.controlPlane, func(c *infrav1.PortalControlPlane) { c.Status = status })
}

func ref(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name}
}
