// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"encoding/json"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// adoption is the policy for a right that a Role in a namespace cannot grant.
const adoption = policy + "adoption"

// ownRequests is the control that lets the manager find clusters by name only if the object's own requests made them.
const ownRequests = "only clusters that the object's own requests made are found by name"

// adoptions returns the attacks that take over a portal cluster of another user of the same portal account.
func adoptions() []row {
	return []row{
		{attack: "clusterID names another's cluster, for its kubeconfig", heldBy: adoption, attempt: func(t *tenant) string {
			return t.takes(func(c *cluster, id, _ string) { c.controlPlane.Spec.ClusterID = id }, t.received)
		}},
		{attack: "clusterID names another's cluster, to delete it", heldBy: adoption, attempt: deletes(func(c *cluster, id, _ string) {
			c.controlPlane.Spec.ClusterID, c.controlPlane.Spec.DeletionPolicy = id, infrav1.DeletionPolicyDelete
		})},
		{attack: "a confirmed deletion for a cluster that the object does not own", heldBy: adoption, attempt: confirms},
		{attack: "a forged backup of another's control plane", heldBy: adoption, attempt: deletes(func(c *cluster, id, _ string) {
			c.controlPlane.Spec.ClusterID = id
			record, _ := json.Marshal(operation.Record{UID: "before-the-restore", ClusterID: id})
			metav1.SetMetaDataAnnotation(&c.controlPlane.ObjectMeta, infrav1.RecordAnnotation, string(record))
		})},
		{attack: "portal-operation names another's job", heldBy: adoption, attempt: func(t *tenant) string {
			return t.takes(func(c *cluster, _, job string) {
				metav1.SetMetaDataAnnotation(&c.controlPlane.ObjectMeta, infrav1.OperationAnnotation, creation(job))
			}, t.received)
		}},
		{attack: "portal-operation is patched into an object that exists", heldBy: adoption, attempt: patched},
		{attack: "an older object with a forged record outranks the owner", heldBy: adoption, attempt: outranks},
		{attack: "another spelling of the portal's URL hides the owner", heldBy: adoption, attempt: spelled},
		{attack: "a forged condition lets clusterID change", heldBy: adoption, attempt: forgedCondition},
		{attack: "annotations of a Cluster's topology reach the control plane by core's hands", heldBy: adoption, attempt: func(t *tenant) string {
			return t.byCore(true)
		}},
		{attack: "annotations of a template reach the control plane by core's hands", heldBy: adoption, attempt: func(t *tenant) string {
			return t.byCore(false)
		}},
		{attack: "portal-operation of a PortalCluster names the job of another's network", heldBy: adoption, attempt: anothersNetwork},
		{attack: "portal-network names another's network", heldBy: adoption, attempt: func(t *tenant) string {
			id, _ := t.network()
			return t.usesNetwork(id, infrav1.NetworkAnnotation, id)
		}},
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

// takes creates a Cluster that names another person's portal cluster or the job of that cluster.
func (t *tenant) takes(name func(c *cluster, id, job string), harm func(c *cluster, id string) func() string) string {
	t.Helper()
	id, job := t.portalCluster("theirs")
	c := t.own(nil)
	name(c, id, job)
	if !t.create(c.objects()...) {
		return ""
	}
	return t.seen(harm(c, id))
}

// deletes creates such a Cluster, and deletes it once the manager has seen it.
func deletes(name func(c *cluster, id, job string)) func(*tenant) string {
	return func(t *tenant) string {
		return t.takes(name, func(c *cluster, id string) func() string {
			t.seenByManager(c)
			time.Sleep(settle)
			t.must(t.client.Delete(t.Context(), c.controlPlane))
			t.delete(c)
			return t.deleted(id)
		})
	}
}

// confirms creates the object with a finalizer of its own, so that the manager first sees the object while it is being deleted and
// unclaimed.
func confirms(t *tenant) string {
	id, _ := t.portalCluster("theirs")
	c := t.own(nil)
	c.controlPlane.Spec.ClusterID = id
	c.controlPlane.Finalizers = []string{infrav1.ControlPlaneFinalizer}
	c.controlPlane.Annotations = map[string]string{infrav1.DecisionAnnotation: infrav1.DecisionDelete.About(id), pausedAnnotation: ""}
	if !t.create(c.objects()...) {
		return ""
	}
	t.await("core has seen the object", func() bool { return len(fetched(t, c.controlPlane).OwnerReferences) > 0 })
	t.must(t.client.Delete(t.Context(), c.controlPlane))
	if !change(t, c.controlPlane, func(cp *infrav1.PortalControlPlane) { delete(cp.Annotations, pausedAnnotation) }) {
		return ""
	}
	return t.seen(t.deleted(id))
}

const pausedAnnotation = clusterv1.PausedAnnotation

// patched adds the annotation later, with a server-side apply.
func patched(t *tenant) string {
	id, job := t.portalCluster("theirs")
	c := t.own(nil)
	metav1.SetMetaDataAnnotation(&c.controlPlane.ObjectMeta, pausedAnnotation, "")
	if !t.create(c.objects()...) {
		return ""
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": infrav1.GroupVersion.String(), "kind": "PortalControlPlane",
		"metadata": map[string]any{"name": c.controlPlane.Name, "annotations": map[string]any{infrav1.OperationAnnotation: creation(job)}},
	})
	t.must(err)
	apply := client.RawPatch(types.ApplyPatchType, text)
	if !t.accepted(t.client.Patch(t.Context(), c.controlPlane, apply, client.FieldOwner("tenant"), client.ForceOwnership)) {
		return ""
	}
	if !change(t, c.controlPlane, func(cp *infrav1.PortalControlPlane) { delete(cp.Annotations, pausedAnnotation) }) {
		return ""
	}
	return t.seen(t.received(c, id))
}

// outranks creates its object before the victim's, and claims the cluster later. Of two owners, the manager accepts the older one.
func outranks(t *tenant) string {
	c := t.own(nil)
	metav1.SetMetaDataAnnotation(&c.controlPlane.ObjectMeta, pausedAnnotation, "")
	if !t.create(c.objects()...) {
		return ""
	}
	time.Sleep(time.Second) // ages have the precision of seconds
	theirs := t.victim(nil)
	id := theirs.controlPlane.Spec.ClusterID
	record, err := json.Marshal(operation.Record{UID: c.controlPlane.UID, ClusterID: id})
	t.must(err)
	if !change(t, c.controlPlane, func(cp *infrav1.PortalControlPlane) {
		delete(cp.Annotations, pausedAnnotation)
		cp.Spec.ClusterID = id
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.RecordAnnotation, string(record))
	}) {
		return ""
	}
	return t.seen(t.received(c, id))
}

// spelled writes the port with a leading zero. The manager compares URLs to decide whether two objects use the same portal.
func spelled(t *tenant) string {
	id := t.victim(nil).controlPlane.Spec.ClusterID
	secret := t.secret(t.namespace, attacker)
	t.must(t.client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	t.must(t.rewrite(secret, infrav1.IdentityBaseURL, strings.Replace(box.Portal.URL(), loopback+":", loopback+":0", 1)))
	c := t.own(nil)
	c.controlPlane.Spec.ClusterID = id
	if !t.create(c.objects()...) {
		return ""
	}
	return t.seen(t.received(c, id))
}

// forgedCondition changes the id of the tenant's own cluster. The API server may allow this only after the cluster is gone.
func forgedCondition(t *tenant) string {
	c := t.own(nil)
	if !t.create(c.objects()...) {
		return ""
	}
	t.await("the tenant's cluster", func() bool { return t.stored(c) != nil })
	id, _ := t.portalCluster("theirs")
	if !change(t, c.controlPlane, func(cp *infrav1.PortalControlPlane) {
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, pausedAnnotation, "")
	}) {
		return ""
	}
	for range 50 { // a running pass may write the status once more
		if !forge(t, c.controlPlane, func(cp *infrav1.PortalControlPlane) {
			for i := range cp.Status.Conditions {
				if condition := &cp.Status.Conditions[i]; condition.Type == infrav1.ProvisionedCondition {
					condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.PortalClusterGoneReason
				}
			}
		}) {
			return ""
		}
		if change(t, c.controlPlane, func(cp *infrav1.PortalControlPlane) {
			cp.Spec.ClusterID = id
			delete(cp.Annotations, pausedAnnotation)
		}) {
			return t.seen(t.received(c, id))
		}
		if *withoutControls {
			time.Sleep(poll)
			continue
		}
		break
	}
	return ""
}

// network creates another person's network, and returns its id and the job that created it.
func (t *tenant) network() (id, job string) {
	t.Helper()
	theirs := t.victim(func(c *cluster) { c.portalCluster.Spec.Network = &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"} })
	id = fetched(t, theirs.portalCluster).Status.NetworkID
	state, err := operation.Load(theirs.portalCluster)
	t.must(err)
	return id, state.Last.JobID
}

func anothersNetwork(t *tenant) string {
	id, job := t.network()
	op := operation.New(operation.CreateNetwork, "10.2.0.0/24")
	op.Time, op.JobID = metav1.NewTime(time.Now().Add(-time.Minute)), job
	text, err := json.Marshal(op)
	t.must(err)
	return t.usesNetwork(id, infrav1.OperationAnnotation, string(text))
}

// usesNetwork creates a Cluster whose network looks as if it had been created for that Cluster.
func (t *tenant) usesNetwork(id, annotation, value string) string {
	t.Helper()
	c := t.own(nil)
	c.portalCluster.Spec.Network = &infrav1.PortalNetwork{CIDR: "10.2.0.0/24"}
	metav1.SetMetaDataAnnotation(&c.portalCluster.ObjectMeta, annotation, value)
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
