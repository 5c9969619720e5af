// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/ownerref"
)

const controlPlaneKind = "PortalControlPlane"

// Begin makes the first write to the object, which sets the finalizer, and records the owner. An owner reference with an
// earlier UID of the Cluster is recorded when core has corrected it. Until then, a policy keeps the garbage collector away. The
// write fails if the object was deleted in the meantime, so the recorded owner is the owner before any deletion.
func (k *Owners) Begin(ctx context.Context, p *pass.Pass) error {
	cp, owner, begin := p.ControlPlane, string(p.Cluster.UID), func(*operation.State) {}
	if !controllerutil.ContainsFinalizer(cp, infrav1.ControlPlaneFinalizer) {
		begin = firstWrite(p)
	} else if ownerref.Stale(cp, p.Cluster) || cp.Annotations[infrav1.OwnerAnnotation] == owner {
		return nil
	}
	return p.Change(ctx, func(next *operation.State) {
		if begin(next); !ownerref.Stale(cp, p.Cluster) {
			metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.OwnerAnnotation, owner)
		}
	})
}

// HoldDeletion is done if the portal cluster may be deleted, or if nothing has to be deleted. Otherwise a person has to decide.
func (k *Owners) HoldDeletion(ctx context.Context, p *pass.Pass) outcome.Outcome {
	spec := p.ControlPlane.Spec
	if spec.ClusterID == "" || p.DeletionPolicy() == infrav1.DeletionPolicyRetain || p.Op().Is(operation.Delete) || p.Deleted() {
		return outcome.Outcome{} // the deletion was sent, and is followed to its end
	}
	if owner, err := k.otherOwner(ctx, p); err != nil {
		return outcome.Fail(err)
	} else if owner != nil {
		return outcome.Outcome{} // nothing is deleted
	}
	cluster, err := k.liveCluster(ctx, p.ControlPlane)
	if err != nil {
		return outcome.Fail(err)
	}
	if guard := protection(p.ControlPlane, cluster); guard != "" {
		return outcome.StallFor(0, infrav1.DeletionProtectedReason, "portal cluster %s was not deleted: annotation %s of %s protects it. "+
			"To delete it, remove the annotation. To keep it and let this object go, set spec.deletionPolicy to Retain",
			spec.ClusterID, infrav1.DeletionProtectionAnnotation, guard)
	}
	if deletionConfirmed(p) {
		return outcome.Outcome{}
	}
	doubt, err := k.whyUnintended(ctx, p.ControlPlane, cluster)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case doubt == "" && unclaimed(p):
		doubt = "this object was deleted before it had taken over its portal cluster"
	case doubt == "":
		return outcome.Outcome{}
	}
	return outcome.StallFor(0, infrav1.DeletionNotConfirmedReason, "%s, so portal cluster %s was not deleted. To keep it and "+
		"let this object go, set spec.deletionPolicy to Retain. To delete it: %s", doubt, spec.ClusterID, operation.Command(p.ControlPlane, infrav1.DecisionDelete, spec.ClusterID))
}

// deletionConfirmed reports whether a person has confirmed that the portal cluster is to be deleted.
func deletionConfirmed(p *pass.Pass) bool {
	return infrav1.DecisionDelete.MadeOn(p.ControlPlane, p.ControlPlane.Spec.ClusterID)
}

// whyUnintended returns why the deletion may not be intended, or "". The garbage collector only deletes an object whose owners
// are gone. Everyone else deletes on purpose, except for the removal of a CustomResourceDefinition.
func (k *Owners) whyUnintended(ctx context.Context, cp *infrav1.PortalControlPlane, cluster *clusterv1.Cluster) (string, error) {
	if cluster != nil && !cluster.DeletionTimestamp.IsZero() && refersTo(cluster, cp) {
		return k.removedKind(ctx, cluster, "clusters."+clusterv1.GroupVersion.Group)
	}
	references := ownerref.To(ownerref.Cluster, cp)
	switch {
	case len(references) > 0 && cluster == nil:
		return fmt.Sprintf("the garbage collector may have deleted this object: its owner, Cluster %s, does not exist", references[0].Name), nil
	case len(references) > 0 && (ownerref.Stale(cp, cluster) || cp.Annotations[infrav1.OwnerAnnotation] != string(cluster.UID)):
		return fmt.Sprintf("the garbage collector may have deleted this object: its owner was an earlier Cluster %s", cluster.Name), nil
	}
	return k.removedKind(ctx, cp, "portalcontrolplanes."+infrav1.GroupVersion.Group)
}

// removedKind reports that the object was deleted because its CustomResourceDefinition is being deleted, or returns "".
func (k *Owners) removedKind(ctx context.Context, deleted client.Object, name string) (string, error) {
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := k.Live.Get(ctx, client.ObjectKey{Name: name}, definition); err != nil {
		return "", fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	if removed := definition.DeletionTimestamp; removed == nil || deleted.GetDeletionTimestamp().Before(removed) {
		return "", nil
	}
	return "the CustomResourceDefinition " + name + " is being deleted, and all objects with it", nil
}

// liveCluster reads the Cluster that the owner reference names, with any UID, past the cache. Without a reference, it uses the
// label. It returns nil if no such Cluster exists.
func (k *Owners) liveCluster(ctx context.Context, cp *infrav1.PortalControlPlane) (*clusterv1.Cluster, error) {
	references := ownerref.To(ownerref.Cluster, cp)
	if name := cp.Labels[clusterv1.ClusterNameLabel]; len(references) == 0 && name != "" {
		references = []metav1.OwnerReference{{Name: name}}
	}
	for _, reference := range references {
		cluster := &clusterv1.Cluster{}
		err := k.Live.Get(ctx, client.ObjectKey{Namespace: cp.Namespace, Name: reference.Name}, cluster)
		if err == nil {
			return cluster, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read Cluster %s: %w", reference.Name, err)
		}
	}
	return nil, nil // a missing Cluster is not an error
}

// protection returns the object whose annotation protects the portal cluster against deletion, or "".
func protection(cp *infrav1.PortalControlPlane, cluster *clusterv1.Cluster) string {
	switch {
	case infrav1.DeletionProtected(cp):
		return "PortalControlPlane " + cp.Name
	case cluster != nil && infrav1.DeletionProtected(cluster):
		return "Cluster " + cluster.Name
	}
	return ""
}

// AwaitReference is done unless the Cluster names another control plane. A copied manifest has the owner reference and the label of the
// Cluster, too, and would get a portal cluster of its own.
func AwaitReference(p *pass.Pass) outcome.Outcome {
	if refersTo(p.Cluster, p.ControlPlane) {
		return outcome.Outcome{}
	}
	return outcome.WaitFor(0, infrav1.WaitingForObjectReason, "Cluster %s does not name this object in spec.controlPlaneRef, so no portal cluster is created or "+
		"taken over. Delete this object, or name it there", p.Cluster.Name)
}

// HalfProtected returns what to do if only one of the two objects has the annotation that protects against deletion, or "". The deletion of the
// other one is then accepted, and takes the Machines with it, or holds.
func HalfProtected(cp *infrav1.PortalControlPlane, cluster *clusterv1.Cluster) string {
	if cluster == nil || infrav1.DeletionProtected(cp) == infrav1.DeletionProtected(cluster) {
		return ""
	}
	bare, protected := "PortalControlPlane "+cp.Name, "Cluster "+cluster.Name
	if infrav1.DeletionProtected(cp) {
		bare, protected = protected, bare
	}
	return fmt.Sprintf("%s is not protected against deletion, but %s is. Set annotation %s on both, or on neither", bare, protected,
		infrav1.DeletionProtectionAnnotation)
}

// refersTo reports whether the object is the control plane of the Cluster.
func refersTo(cluster *clusterv1.Cluster, cp *infrav1.PortalControlPlane) bool {
	ref := cluster.Spec.ControlPlaneRef
	return ref.Kind == controlPlaneKind && ref.Name == cp.Name && cluster.Namespace == cp.Namespace
}
