// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// settle is how long the manager gets to claim a cluster.
const settle = 4 * time.Second

// creation returns the record of a creation in progress.
func creation(job string) string {
	op := operation.New(operation.Create, "taken")
	op.Time, op.JobID = metav1.NewTime(time.Now().Add(-time.Minute)), job
	text, _ := json.Marshal(op)
	return string(text)
}

// deletes creates an object that names another person's portal cluster, and deletes it once the manager has seen it.
func deletes(t *tenant) string {
	id, _ := t.portalCluster("theirs")
	c := t.own(nil)
	c.controlPlane.Spec.ClusterID, c.controlPlane.Spec.DeletionPolicy = id, infrav1.DeletionPolicyDelete
	if !t.create(c.objects()...) {
		return ""
	}
	t.await("the manager and core have seen the object", func() bool {
		cp := fetched(t, c.controlPlane)
		return len(cp.Finalizers) > 0 && len(cp.OwnerReferences) > 0 && len(cp.Status.Conditions) > 0
	})
	time.Sleep(settle)
	t.must(t.client.Delete(t.Context(), c.controlPlane))
	t.must(client.IgnoreNotFound(t.client.Delete(t.Context(), c.cluster)))
	return t.seen("another's portal cluster was deleted", func() bool {
		return !slices.ContainsFunc(box.Portal.Clusters(), func(c emulator.Cluster) bool { return c.ID == id && c.State == emulator.ClusterRunning })
	})
}

// namesJob claims that the job of another person's portal cluster is the creation of the tenant's.
func namesJob(t *tenant) string {
	id, job := t.portalCluster("theirs")
	c := t.own(nil)
	metav1.SetMetaDataAnnotation(&c.controlPlane.ObjectMeta, infrav1.OperationAnnotation, creation(job))
	if !t.create(c.objects()...) {
		return ""
	}
	return t.received(c, id)
}

// namesNetwork creates a Cluster whose network looks as if it had been created for that Cluster.
func namesNetwork(t *tenant) string {
	theirs := t.victim(func(c *cluster) { c.portalCluster.Spec.Network = &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"} })
	id := fetched(t, theirs.portalCluster).Status.NetworkID
	c := t.own(nil)
	c.portalCluster.Spec.Network = &infrav1.PortalNetwork{CIDR: "10.2.0.0/24"}
	metav1.SetMetaDataAnnotation(&c.portalCluster.ObjectMeta, infrav1.NetworkAnnotation, id)
	if !t.create(c.objects()...) {
		return ""
	}
	return t.seen("another's network counts as the tenant's", func() bool { return fetched(t, c.portalCluster).Status.NetworkID == id })
}

// sameName uses the name of an existing cluster as if the provider had generated it. The request never reaches the portal, and the answer
// is lost.
func sameName(t *tenant) string {
	c := t.own(nil)
	c.controlPlane.Spec.ClusterName = c.controlPlane.Name + "-bcdfg" // as if it were generated
	id, _ := t.portalCluster(c.controlPlane.Spec.ClusterName)
	cut := emulator.Fault{ID: t.namespace, Method: "POST", Path: "/kubernetes-clusters", Account: user(attacker, t.number).Account, Count: 1, Cut: true}
	t.must(box.Portal.Inject(cut))
	if !t.create(c.objects()...) {
		return ""
	}
	return t.received(c, id)
}
