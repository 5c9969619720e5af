// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strconv"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/lifecycle"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// topologyTimeout is how long a control plane waits for the MachineDeployments of its Cluster's topology. The topology
// controller creates them in its first pass. If that fails half way, it waits for the control plane before it goes on, so the
// control plane must not wait for them forever.
const topologyTimeout = time.Minute

// awaitTopology waits for the MachineDeployments of the topology before the creation, while the object is young. After topologyTimeout, spec.topology and
// spec.workers are used.
func (s *scope) awaitTopology(desired workers.Desired, age time.Duration) outcome.Outcome {
	missing := desired.Awaited.Names
	if len(missing) == 0 {
		return outcome.Outcome{}
	}
	if wait := topologyTimeout - age; wait > 0 {
		return outcome.WaitFor(wait, infrav1.WaitingForObjectReason,
			"waiting for the topology controller to create these MachineDeployments: %s", outcome.Names(missing))
	}
	if len(desired.Templates) == 0 && s.ControlPlane.Spec.Workers == nil {
		return outcome.WaitFor(0, infrav1.WaitingForObjectReason,
			"the topology controller creates these MachineDeployments only after the control plane: %s. Set spec.workers, here or in the "+
				"PortalControlPlaneTemplate, so that the portal cluster can be created without them", outcome.Names(missing))
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
	kept, reached := s.outcomes[infrav1.WorkersReadyCondition]
	if !reached || kept.Kind == outcome.Blocked || kept.Kind == outcome.Failed || kept.Kind == outcome.Retry {
		return outcome.RetryAfter(0) // this pass has not read them, so the condition stays as it is
	}
	version, wanted := s.ControlPlane.Spec.Version, s.Cluster.Spec.Topology.Version
	var behind []string
	made, _ := workers.TopologyOf(s.Cluster, s.members)
	for _, md := range made {
		if md.Spec.Template.Spec.Version != version {
			behind = append(behind, md.Name)
		}
	}
	if wanted != version && len(behind) > 0 && s.Op() == nil {
		return outcome.StallFor(0, infrav1.TopologyNotUpgradableReason,
			"the upgrade to %s goes through %s, which the nodes run but these MachineDeployments do not have: %s. The topology "+
				"controller waits for them forever: set their spec.template.spec.version to %s, and from now on upgrade one minor version at a time",
			wanted, version, outcome.Names(behind), version)
	}
	for _, n := range s.nodes.Workers {
		if kubelet := n.Status.NodeInfo.KubeletVersion; kubelet != version && lifecycle.SameRelease(kubelet, version) && lifecycle.SameBuild(kubelet, version) {
			return outcome.StallFor(0, infrav1.TopologyNotUpgradableReason,
				"Node %s reports version %s, which the topology controller takes for another version than %s, so MachineDeployments count "+
					"as upgrading forever. To upgrade a Cluster at this portal, create it with spec.topology.version %s", n.Name, kubelet, version, kubelet)
		}
	}
	return outcome.Outcome{}
}
