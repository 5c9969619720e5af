// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"slices"
	"strconv"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/lifecycle"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// topologyTimeout is how long a control plane waits for the MachineDeployments of its Cluster's topology. The topology
// controller creates them in its first pass. If that fails half way, it waits for the control plane before it goes on, so the
// control plane must not wait for them forever.
const topologyTimeout = time.Minute

// awaited are the MachineDeployments and MachinePools of a topology that do not exist yet.
type awaited struct {
	names    []string
	replicas int // their sum
}

// topologyOf returns the MachineDeployments that the Cluster's topology, if it has one, has created, and those that it has not
// created yet. MachinePools are awaited too.
func topologyOf(cluster *clusterv1.Cluster, deployments []clusterv1.MachineDeployment, pools []clusterv1.MachinePool) (made []clusterv1.MachineDeployment, a awaited) {
	for _, wanted := range cluster.Spec.Topology.Workers.MachineDeployments {
		i := slices.IndexFunc(deployments, func(md clusterv1.MachineDeployment) bool {
			return md.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] == wanted.Name
		})
		if i >= 0 {
			made = append(made, deployments[i])
			continue
		}
		a.await(wanted.Name, wanted.Replicas)
	}
	for _, wanted := range cluster.Spec.Topology.Workers.MachinePools {
		if !slices.ContainsFunc(pools, func(mp clusterv1.MachinePool) bool {
			return mp.Labels[clusterv1.ClusterTopologyMachinePoolNameLabel] == wanted.Name
		}) {
			a.await(wanted.Name, wanted.Replicas)
		}
	}
	return made, a
}

func (a *awaited) await(name string, replicas *int32) {
	a.names = append(a.names, name)
	a.replicas += int(ptr.Deref(replicas, 1)) // core's default
}

// keptFor returns how many workers beyond the sum stay for the MachineDeployments that do not exist yet. Workers that the portal
// cluster was created with are not removed before these exist. More workers are requested only when a MachineDeployment asks for
// them.
func (a awaited) keptFor(sum, size int) int {
	return max(0, min(a.replicas, size-sum))
}

// firstSize is the number of workers that the portal cluster is created with.
func (d *desired) firstSize() int { return max(d.sum, d.sum-d.stays+d.awaited.replicas) }

// awaitTopology waits for the MachineDeployments of the topology before the creation. After topologyTimeout, spec.topology and
// spec.workers are used.
func (s *scope) awaitTopology(now time.Time) outcome.Outcome {
	missing := s.desired.awaited.names
	if len(missing) == 0 {
		return outcome.Outcome{}
	}
	if wait := topologyTimeout - now.Sub(s.ControlPlane.CreationTimestamp.Time); wait > 0 {
		return outcome.WaitFor(min(wait, topologyTimeout), infrav1.WaitingForObjectReason,
			"waiting for the topology controller to create these MachineDeployments: %s", joinNames(missing))
	}
	if len(s.desired.templates) == 0 && s.ControlPlane.Spec.Workers == nil {
		return outcome.WaitFor(0, infrav1.WaitingForObjectReason,
			"the topology controller creates these MachineDeployments only after the control plane: %s. Set spec.workers, here or in the "+
				"PortalControlPlaneTemplate, so that the portal cluster can be created without them", joinNames(missing))
	}
	return outcome.Outcome{}
}

// enoughConcurrency reports whether an upgrade would reach the MachineDeployments. For the topology controller, a
// MachineDeployment is upgrading while a kubelet has another version than the MachineDeployment, and the annotation limits how
// many may be upgrading at a time. The portal upgrades all nodes before any MachineDeployment changes, so all of them count as
// upgrading before the first one may start.
func enoughConcurrency(cluster *clusterv1.Cluster) outcome.Outcome {
	workers := cluster.Spec.Topology.Workers
	deployments := max(len(workers.MachineDeployments), len(workers.MachinePools)) // core counts each kind by itself
	concurrency, err := strconv.Atoi(cluster.Annotations[clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation])
	if err != nil {
		concurrency = 1 // core's default
	}
	if deployments == 0 || concurrency > deployments {
		return outcome.Outcome{}
	}
	return outcome.StallFor(0, infrav1.TopologyNotUpgradableReason,
		"an upgrade would stop before the MachineDeployments. Set annotation %s of Cluster %s to a number above %d, the number of its MachineDeployments: "+
			"the portal upgrades all nodes at once, so all of them count as upgrading, and with %d the topology controller does not start",
		clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation, cluster.Name, deployments, concurrency)
}

// upgradable reports whether the MachineDeployments will stop counting as upgrading. Otherwise the control plane gets no further
// version.
func (s *scope) upgradable() outcome.Outcome {
	workers, reached := s.outcomes[infrav1.WorkersReadyCondition]
	if !reached || workers.Kind == outcome.Blocked || workers.Kind == outcome.Failed || workers.Kind == outcome.Retry {
		return outcome.RetryAfter(0) // this pass has not read them, so the condition stays as it is
	}
	version, wanted := s.ControlPlane.Spec.Version, s.Cluster.Spec.Topology.Version
	var behind []string
	for _, md := range s.desired.topologyDeployments {
		if md.Spec.Template.Spec.Version != version {
			behind = append(behind, md.Name)
		}
	}
	if wanted != version && len(behind) > 0 && s.Op() == nil {
		return outcome.StallFor(0, infrav1.TopologyNotUpgradableReason,
			"the upgrade to %s goes through %s, which the nodes run but these MachineDeployments do not have: %s. The topology "+
				"controller waits for them forever: set their spec.template.spec.version to %s, and from now on upgrade one minor version at a time",
			wanted, version, joinNames(behind), version)
	}
	for _, n := range s.nodes {
		if kubelet := n.Status.NodeInfo.KubeletVersion; kubelet != version && lifecycle.SameRelease(kubelet, version) && lifecycle.SameBuild(kubelet, version) {
			return outcome.StallFor(0, infrav1.TopologyNotUpgradableReason,
				"Node %s reports version %s, which the topology controller takes for another version than %s, so MachineDeployments count "+
					"as upgrading forever. To upgrade a Cluster at this portal, create it with spec.topology.version %s", n.Name, kubelet, version, kubelet)
		}
	}
	return outcome.Outcome{}
}
