// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"iter"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// reconcileDelete deletes the portal cluster, then removes the finalizer of the PortalControlPlane.
func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(s.ControlPlane, infrav1.ControlPlaneFinalizer) {
		return ctrl.Result{}, nil
	}
	o := r.Ownership.HoldDeletion(ctx, &s.Pass)
	if o.IsDone() {
		if err := r.workers(s).Release(ctx, &s.Pass, s.way); err != nil {
			return ctrl.Result{}, err
		}
		o = r.deletePortalCluster(ctx, s)
	}
	if !o.IsDone() {
		s.outcomes[clusterv1.DeletingCondition] = o
		outcome.Log(ctx, o)
		return outcome.Result(o), outcome.FirstError(o)
	}
	r.Access.Forget(&s.Pass)
	err := s.Change(ctx, func(*operation.State) { controllerutil.RemoveFinalizer(s.ControlPlane, infrav1.ControlPlaneFinalizer) })
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// deletePortalCluster takes the deletion of the portal cluster one step further. Its API server goes too, so the volumes that stay are read before.
func (r *Reconciler) deletePortalCluster(ctx context.Context, s *scope) outcome.Outcome {
	o, due := r.Lifecycle.Delete(ctx, &s.Pass)
	if !due {
		return o
	}
	stay := r.volumesOf(ctx, s)
	o, accepted := r.Lifecycle.SendDelete(ctx, &s.Pass)
	if accepted {
		r.reportVolumes(s, stay)
	}
	return o
}

const (
	// driverSuffix is the end of the name of the portal's volume driver (specification, Storage class parameters).
	driverSuffix = ".csi.driver"
	// idsPerEvent is how long the ids in one event are together. The text of an event has at most 1024 bytes.
	idsPerEvent = 800
)

// volumeID is what may be an id. The owner of the workload cluster chooses the ids, and a person pastes them into a command.
var volumeID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

// volumes are the portal's volumes that a workload cluster knows.
type volumes struct {
	ids    []string
	others int  // have an id that no portal gives
	known  bool // they are all
}

// volumesOf reads the volumes, unless that takes long: a cluster that does not answer must not hold its deletion.
func (r *Reconciler) volumesOf(ctx context.Context, s *scope) (found volumes) {
	way := s.way
	if way.Connection == nil && s.Cluster != nil {
		way, _ = r.Access.Reopen(ctx, &s.Pass)
	}
	if way.Connection == nil || way.Health.Failing() {
		return volumes{}
	}
	ctx, cancel := context.WithTimeout(ctx, access.ConnectTime)
	defer cancel()
	list := &corev1.PersistentVolumeList{}
	if err := way.Connection.Client().List(ctx, list, client.Limit(workload.MaxObjects)); err != nil {
		return volumes{}
	}
	for _, v := range list.Items {
		switch {
		case v.Spec.CSI == nil || !strings.HasSuffix(v.Spec.CSI.Driver, driverSuffix):
		case volumeID.MatchString(v.Spec.CSI.VolumeHandle):
			found.ids = append(found.ids, v.Spec.CSI.VolumeHandle)
		default:
			found.others++
		}
	}
	slices.Sort(found.ids)
	found.ids, found.known = slices.Compact(found.ids), list.Continue == ""
	return found
}

// reportVolumes emits events about the volumes that stay at the portal, and are billed, when the portal has accepted the deletion of the cluster.
// The events are on the Cluster, and on its namespace, whose events are kept elsewhere: a namespace that is being deleted accepts none. The
// log has each event. Their related objects differ, so that the recorder keeps them apart.
func (r *Reconciler) reportVolumes(s *scope, stay volumes) {
	about := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ControlPlane.Namespace}}, s.ControlPlane}
	if s.Cluster != nil {
		about[1] = s.Cluster
	}
	event := func(related *corev1.ObjectReference, kind, reason, format string, args ...any) {
		for _, obj := range about {
			r.Recorder.Eventf(obj, related, kind, reason, "Delete", format, args...)
		}
	}
	portalCluster, cluster := pass.Related("PortalControlPlane", s.ControlPlane.Name), s.ControlPlane.Spec.ClusterID
	for part := range inParts(stay.ids) {
		event(pass.Related("PersistentVolume", part[0]), corev1.EventTypeNormal, infrav1.EventVolumesRemain,
			"%d of %s of portal cluster %s remain at the portal and are billed. To delete them with their data: portalctl volumes delete %s",
			len(part), outcome.Count(len(stay.ids), "volume"), cluster, strings.Join(part, " "))
	}
	if stay.others > 0 {
		event(portalCluster, corev1.EventTypeWarning, infrav1.EventVolumesMayRemain,
			"Portal cluster %s has %s with ids that are not listed here, because they contain unusual characters. Look for them on the portal's pages",
			cluster, outcome.Count(stay.others, "volume"))
	}
	if !stay.known {
		event(portalCluster, corev1.EventTypeWarning, infrav1.EventVolumesMayRemain, "Volumes of portal cluster %s may remain at the portal and are billed: "+
			"the workload cluster did not list them all. Look for them on the portal's pages", cluster)
	}
}

// inParts divides ids into parts that fit into an event each.
func inParts(ids []string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for first, length, i := 0, 0, 0; i < len(ids); i++ {
			length += len(ids[i]) + 1
			if i+1 < len(ids) && length+len(ids[i+1]) <= idsPerEvent {
				continue
			}
			if !yield(ids[first : i+1]) {
				return
			}
			first, length = i+1, 0
		}
	}
}
