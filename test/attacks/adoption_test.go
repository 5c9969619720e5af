// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// settle is how long the manager gets to claim a cluster.
const settle = 4 * time.Second

// deletes creates an object that names another person's portal cluster, and deletes it once the manager has seen it.
func deletes(t *tenant) string {
	id, _ := t.portalCluster()
	c := t.own()
	c.ControlPlane.Spec.ClusterID, c.ControlPlane.Spec.DeletionPolicy = id, infrav1.DeletionPolicyDelete
	if !t.create(c.Cluster, c.PortalCluster, c.ControlPlane) {
		return ""
	}
	t.await("the manager and core have seen the object", func() bool {
		cp := fetched(t, c.ControlPlane)
		return len(cp.Finalizers) > 0 && len(cp.OwnerReferences) > 0 && len(cp.Status.Conditions) > 0
	})
	time.Sleep(settle)
	t.must(t.client.Delete(t.Context(), c.ControlPlane))
	t.must(client.IgnoreNotFound(t.client.Delete(t.Context(), c.Cluster)))
	return t.seen("another's portal cluster was deleted", func() bool {
		return !slices.ContainsFunc(box.Portal.Clusters(), func(c emulator.Cluster) bool { return c.ID == id && c.State == emulator.ClusterRunning })
	})
}

// byCore claims that the job of another person's portal cluster is the creation of the tenant's. Core copies the annotation from the Cluster's
// topology.
func byCore(t *tenant) string {
	id, job := t.portalCluster()
	op := operation.New(operation.Create, "taken")
	op.Time, op.JobID = metav1.NewTime(time.Now().Add(-time.Minute)), job
	creation, err := json.Marshal(op)
	t.must(err)
	meta := metav1.ObjectMeta{Namespace: t.namespace, Name: fmt.Sprintf("class-%d", t.number)}
	c := t.own()
	infrastructure := &infrav1.PortalClusterTemplate{ObjectMeta: meta}
	infrastructure.Spec.Template.Spec = infrav1.PortalClusterTemplateResourceSpec{
		IdentityRef: c.PortalCluster.Spec.IdentityRef, ZoneID: c.PortalCluster.Spec.ZoneID, VPC: &c.PortalCluster.Spec.VPC,
	}
	control := &infrav1.PortalControlPlaneTemplate{ObjectMeta: meta}
	control.Spec.Template.Spec.Workers = c.ControlPlane.Spec.Workers
	c.Cluster.Spec = clusterv1.ClusterSpec{Topology: clusterv1.Topology{
		ClassRef: clusterv1.ClusterClassRef{Name: meta.Name}, Version: c.ControlPlane.Spec.Version,
		ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To[int32](1), Metadata: clusterv1.ObjectMeta{
			Annotations: map[string]string{infrav1.OperationAnnotation: string(creation)},
		}},
	}}
	ref := func(kind string) clusterv1.ClusterClassTemplateReference {
		return clusterv1.ClusterClassTemplateReference{APIVersion: infrav1.GroupVersion.String(), Kind: kind, Name: meta.Name}
	}
	class := &clusterv1.ClusterClass{ObjectMeta: meta, Spec: clusterv1.ClusterClassSpec{
		Infrastructure: clusterv1.InfrastructureClass{TemplateRef: ref("PortalClusterTemplate")},
		ControlPlane:   clusterv1.ControlPlaneClass{TemplateRef: ref("PortalControlPlaneTemplate")},
	}}
	if !t.create(infrastructure, control, class) {
		return ""
	}
	t.await("core has read the ClusterClass", func() bool { return fetched(t, class).Status.ObservedGeneration > 0 })
	if !t.create(c.Cluster) {
		return ""
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: c.Cluster.Name + "-kubeconfig"}}
	return t.seen("the tenant's namespace received the kubeconfig of another's portal cluster", func() bool {
		err := box.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)
		return err == nil && strings.Contains(string(secret.Data["value"]), id)
	})
}
