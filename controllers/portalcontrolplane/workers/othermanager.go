// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
)

// otherManager is a sign that another management cluster manages a portal cluster. The zero value is ready to use.
type otherManager struct {
	what     string
	since    time.Time
	reported bool
}

// confirmed reports whether the sign was first seen driftTimeout ago and not reported yet. Core writes its annotations within
// seconds, so a younger sign may be outdated. A pass without a sign changes nothing, because two cores overwrite each other's
// annotations.
func (o *otherManager) confirmed(what string) bool {
	if o.what != what {
		*o = otherManager{what: what, since: time.Now()}
	}
	now := !o.reported && time.Since(o.since) >= driftTimeout
	o.reported = o.reported || now
	return now
}

// noticeOtherManager warns if Nodes show that another management cluster manages the portal cluster too. It changes nothing,
// because it cannot know which of the two is right.
func (k Keeper) noticeOtherManager(p *pass.Pass, d *decision) {
	if what := otherManagerOf(p.Cluster, d.members.Machines, d.nodes.Workers); what != "" && k.Memory.other.confirmed(what) {
		p.Warn(infrav1.EventAnotherManager, "Observe", "Another management cluster probably also manages portal cluster %s: %s. Only one may: "+
			"pause or delete the Cluster in the other one, with deletionPolicy Retain", p.ControlPlane.Spec.ClusterID, what)
	}
}

// otherManagerOf names a Node that belongs to a Machine here but has another owner in core's annotations, or returns "". Core
// writes these annotations on the Node of each of its Machines. Other Nodes may have those of a Machine that is gone.
func otherManagerOf(cluster *clusterv1.Cluster, machines []clusterv1.Machine, workers []corev1.Node) string {
	for _, m := range machines {
		i := slices.IndexFunc(workers, func(n corev1.Node) bool { return m.Status.NodeRef.Name == n.Name })
		if i < 0 || !m.DeletionTimestamp.IsZero() {
			continue
		}
		notes := workers[i].Annotations
		namespace := cmp.Or(notes[clusterv1.ClusterNamespaceAnnotation], cluster.Namespace)
		name := cmp.Or(notes[clusterv1.ClusterNameAnnotation], cluster.Name)
		machine := cmp.Or(notes[clusterv1.MachineAnnotation], m.Name)
		known := slices.ContainsFunc(machines, func(other clusterv1.Machine) bool { return other.Name == machine })
		if namespace != cluster.Namespace || name != cluster.Name || !known {
			return fmt.Sprintf("Node %s belongs to Machine %s here, but its annotations name Machine %s of Cluster %s/%s, which does not exist here",
				workers[i].Name, m.Name, machine, namespace, name)
		}
	}
	return ""
}
