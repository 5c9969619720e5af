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
		o = r.Lifecycle.Delete(ctx, &s.Pass, func(ctx context.Context) func() { return r.reportVolumes(ctx, s) })
	}
	if !o.IsDone() {
		s.outcomes[clusterv1.DeletingCondition] = o
		outcome.Log(ctx, o)
		return outcome.Result(o), outcome.FirstError(o)
	}
	if err := r.Ownership.RemoveFromIdentity(ctx, &s.Pass); err != nil {
		o := outcome.Fail(err)
		return outcome.Result(o), outcome.FirstError(o)
	}
	r.Access.Forget(&s.Pass)
	err := s.Change(ctx, func(*operation.State) { controllerutil.RemoveFinalizer(s.ControlPlane, infrav1.ControlPlaneFinalizer) })
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

const (
	// driverSuffix is the end of the name of the portal's volume driver (specification, Storage class parameters).
	driverSuffix = ".csi.driver"
	// idsPerEvent is how long the ids in one event are together. The text of an event has at most 1024 bytes.
	idsPerEvent = 800
)

// volumeID is what may be an id. The owner of the workload cluster chooses the ids, and a person pastes them into a command.
var volumeID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

// volumesOf returns the ids of the portal's volumes that the workload cluster knows, and how many others have an id that no portal gives. If
// they cannot be read soon, known is false. A cluster that does not answer must not hold its deletion.
func (r *Reconciler) volumesOf(ctx context.Context, s *scope) (ids []string, others int, known bool) {
	way := s.way
	if way.Workload == nil && s.Cluster != nil {
		way, _ = r.Access.Reopen(ctx, &s.Pass)
	}
	if way.Workload == nil || way.Access.Failing() {
		return nil, 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, access.ConnectTime)
	defer cancel()
	list := &corev1.PersistentVolumeList{}
	if err := way.Workload.Client().List(ctx, list, client.Limit(workload.MaxObjects)); err != nil {
		return nil, 0, false
	}
	for _, v := range list.Items {
		switch {
		case v.Spec.CSI == nil || !strings.HasSuffix(v.Spec.CSI.Driver, driverSuffix):
		case volumeID.MatchString(v.Spec.CSI.VolumeHandle):
			ids = append(ids, v.Spec.CSI.VolumeHandle)
		default:
			others++
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), others, list.Continue == ""
}

// reportVolumes returns a function that emits events about the volumes that stay at the portal, and are billed, when the portal has accepted
// the deletion of the cluster. They are read now, because the API server is deleted too. The events are on the Cluster, and on its
// namespace, whose events are kept elsewhere: a namespace that is being deleted accepts none. The log has each event. Their related objects
// differ, so that the recorder keeps them apart.
func (r *Reconciler) reportVolumes(ctx context.Context, s *scope) (report func()) {
	ids, others, known := r.volumesOf(ctx, s)
	about := []runtime.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ControlPlane.Namespace}}, s.ControlPlane}
	if s.Cluster != nil {
		about[1] = s.Cluster
	}
	event := func(related *corev1.ObjectReference, kind, reason, format string, args ...any) {
		for _, obj := range about {
			r.Recorder.Eventf(obj, related, kind, reason, "Delete", format, args...)
		}
	}
	portalCluster := pass.Related("PortalControlPlane", s.ControlPlane.Name)
	cluster := s.ControlPlane.Spec.ClusterID
	return func() {
		for part := range inParts(ids) {
			event(pass.Related("PersistentVolume", part[0]), corev1.EventTypeNormal, infrav1.EventVolumesRemain,
				"%d of %s of portal cluster %s remain at the portal and are billed. To delete them with their data: portalctl volumes delete %s",
				len(part), outcome.Count(len(ids), "volume"), cluster, strings.Join(part, " "))
		}
		if others > 0 {
			event(portalCluster, corev1.EventTypeWarning, infrav1.EventVolumesMayRemain,
				"Portal cluster %s has %s with ids that are not listed here, because they contain unusual characters. Look for them on the portal's pages",
				cluster, outcome.Count(others, "volume"))
		}
		if !known {
			event(portalCluster, corev1.EventTypeWarning, infrav1.EventVolumesMayRemain, "Volumes of portal cluster %s may remain at the portal and are billed: "+
				"the workload cluster did not list them all. Look for them on the portal's pages", cluster)
		}
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
