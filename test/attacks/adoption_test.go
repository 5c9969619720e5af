// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// adoption is the policy for a right that a Role in a namespace cannot grant.
const adoption = policy + "adoption"

// ownRequests is the control that lets the manager find clusters by name only if the object's own requests made them.
const ownRequests = "only clusters that the object's own requests made are found by name"

// adoptions returns the attacks that take over a portal cluster of another user of the same portal account: one for each harm that they do.
// TestAdoption of package contract tries every write that the policy refuses.
func adoptions() []row {
	return []row{
		{attack: "clusterID names another's cluster, to delete it", heldBy: adoption, attempt: deletes},
		{attack: "portal-operation names another's job", heldBy: adoption, attempt: namesJob},
		{attack: "annotations of a Cluster's topology reach the control plane by core's hands", heldBy: adoption, attempt: func(t *tenant) string {
			return t.byCore(true)
		}},
		{attack: "annotations of a template reach the control plane by core's hands", heldBy: adoption, attempt: func(t *tenant) string {
			return t.byCore(false)
		}},
		{attack: "portal-network names another's network", heldBy: adoption, attempt: namesNetwork},
		{attack: "the name of another's cluster, after a lost answer", heldBy: ownRequests, attempt: sameName},
	}
}

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
	t.seenByManager(c)
	time.Sleep(settle)
	t.must(t.client.Delete(t.Context(), c.controlPlane))
	t.delete(c)
	return t.seen(t.deleted(id))
}

// namesJob claims that the job of another person's portal cluster is the creation of the tenant's.
func namesJob(t *tenant) string {
	id, job := t.portalCluster("theirs")
	c := t.own(nil)
	metav1.SetMetaDataAnnotation(&c.controlPlane.ObjectMeta, infrav1.OperationAnnotation, creation(job))
	if !t.create(c.objects()...) {
		return ""
	}
	return t.seen(t.received(c, id))
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
	return t.seen(func() string {
		if fetched(t, c.portalCluster).Status.NetworkID == id {
			return "another's network counts as the tenant's"
		}
		return ""
	})
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
	return t.seen(t.received(c, id))
}
