// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// TestDeleteAtAnyMoment deletes the Cluster before the creation, and while the portal works on a job of each kind, which is held until core has
// begun to delete. Nothing is left, and the portal is asked for nothing but the deletion.
func TestDeleteAtAnyMoment(t *testing.T) {
	tale(t, func(w *World) {
		for _, moment := range []struct {
			held string // the route whose job is held
			does func()
			runs operation.Type
		}{
			{createRoute, func() {
				w.Until("core owns the MachineDeployment", Patience, func() string { return diff(fmt.Sprint(len(read(w, theWorkers()).OwnerReferences)), "1") })
			}, ""},
			{createRoute, func() {}, operation.Create},
			{scaleRoute, func() { w.Scale(4) }, operation.Scale},
			{scaleRoute, func() { w.Scale(1) }, operation.Scale},
			{upgradeRoute, func() { w.SetVersion(newVersion) }, operation.Upgrade},
		} {
			w.Strike(emulator.Fault{ID: "held", Path: moment.held, Job: emulator.JobStuck})
			w.CreateCluster(2)
			if moment.held != createRoute {
				w.Settle(2)
			}
			moment.does()
			if moment.runs != "" {
				w.Until("the job runs", Patience, func() string { return diff(string(w.running()), string(moment.runs)) })
			}
			before := w.words()
			w.Delete(theCluster())
			w.Until("core deletes", Patience, func() string {
				if w.there(theCluster()) && !strings.HasPrefix(w.condition(theCluster(), clusterv1.ClusterDeletingCondition), "True") {
					return "it has not begun"
				}
				return ""
			})
			w.Heal("held")
			w.Until("nothing is left", Patience, w.Left)
			w.Let(time.Minute) // the template is collected
			if after := strings.TrimPrefix(strings.TrimPrefix(w.words(), before), ", "); strings.Trim(strings.ReplaceAll(after, "delete 409", ""), ", ") != "delete" && moment.runs != "" {
				t.Errorf("while %s: the portal was asked for %q", moment.runs, after)
			}
		}
	})
}

// TestDeleteEverything deletes the whole manifest backwards, with the identity. The cluster has a network and volumes of the portal's driver, which
// nothing deletes: events on objects that stay name them.
func TestDeleteEverything(t *testing.T) {
	tale(t, func(w *World) {
		m := NewManifest(2)
		m.PortalCluster.Spec.Network = &infrav1.PortalNetwork{CIDR: "10.20.0.0/24"}
		w.Apply(m)
		w.Settle(2)
		c := w.Portal.Clusters()[0]
		for i, driver := range []string{"acme.csi.driver", "acme.csi.driver", "nfs.csi.example"} {
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pv-", i)}}
			pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: fmt.Sprint("volume-", i)}
			w.must(w.workloads.get(c.ID).client.Create(context.Background(), pv))
		}
		for _, o := range slices.Backward(m.objects()) {
			w.Delete(o)
		}
		w.Until("nothing is left", Patience, w.Left)
		w.Gone(m.Identity, m.Template)
		w.Asked("networks", "create", "delete")
		for object, note := range map[string]string{
			"*v1beta2.Cluster " + namespace + "/" + name: "2 of 2 volumes of portal cluster " + c.ID + " remain at the portal and are billed. " +
				"To delete them with their data: portalctl volumes delete volume-0 volume-1",
			"*v1.Namespace /" + namespace: "volume-0 volume-1",
			"":                            "remains at the portal: its API cannot delete networks",
		} {
			if !slices.ContainsFunc(w.events, func(e Event) bool { return strings.HasPrefix(e.Object, object) && strings.Contains(e.Message, note) }) {
				t.Errorf("no event on %q says %q: %v", object, note, w.events)
			}
		}
	})
}
