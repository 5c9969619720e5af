// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"slices"
	"strconv"
	"time"

	"github.com/blang/semver/v4"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// topologyPatience is how long a control plane waits for the MachineDeployments of its Cluster's topology. The topology
// controller creates them in its first pass; when that fails half way, it waits for the control plane before it goes on,
// so the control plane must not wait for them.
const topologyPatience = time.Minute

// awaited are the MachineDeployments and MachinePools that a topology names and that do not exist.
type awaited struct {
	names    []string
	replicas int // their sum
}

// topologyOf sorts out which MachineDeployments the Cluster's topology, if it has one, has made, and which it has yet to make. MachinePools
// are awaited as well.
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

// keptFor is how many workers there are, beyond the sum, for the MachineDeployments that are still to come: those that the
// portal cluster was created with are not given back in between. More are asked for only when a MachineDeployment says so.
func (a awaited) keptFor(sum, size int) int {
	return max(0, min(a.replicas, size-sum))
}

// firstSize is how many workers the portal cluster is created with.
func (d *desired) firstSize() int { return max(d.sum, d.sum-d.stays+d.awaited.replicas) }

// awaitTopology says for how long the creation waits for the MachineDeployments of the topology; afterwards it goes by what
// spec.topology and spec.workers say.
func (s *scope) awaitTopology(now time.Time) outcome.Outcome {
	missing := s.desired.awaited.names
	if len(missing) == 0 {
		return outcome.Outcome{}
	}
	if wait := topologyPatience - now.Sub(s.controlPlane.CreationTimestamp.Time); wait > 0 {
		return outcome.WaitFor(min(wait, topologyPatience), infrav1.WaitingForWorkersReason,
			"the topology controller has yet to create these MachineDeployments: %s", list(missing))
	}
	if len(s.desired.templates) == 0 && s.controlPlane.Spec.Workers == nil {
		return outcome.WaitFor(0, infrav1.WaitingForWorkersReason,
			"the topology controller waits for the control plane with these MachineDeployments: %s; set spec.workers, here or in the "+
				"PortalControlPlaneTemplate, so that it is known what workers are made of", list(missing))
	}
	return outcome.Outcome{}
}

// enoughConcurrency tells whether an upgrade would reach the MachineDeployments. To the topology controller one is upgrading
// as long as a kubelet's version is not its own, and the annotation is the number that may be at a time. The portal's
// upgrade moves all nodes before any MachineDeployment; so when the first of them is to begin, all are upgrading already.
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
	return outcome.StallFor(0, infrav1.UpgradeConcurrencyTooLowReason,
		"set annotation %s of Cluster %s to a number above %d, the number of its MachineDeployments: the portal upgrades all nodes at once, "+
			"so all MachineDeployments count as upgrading, and at %d the topology controller would not begin with the first of them",
		clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation, cluster.Name, deployments, concurrency)
}

// upgradable tells whether MachineDeployments count as upgrading for ever, so that the control plane gets no further version.
func (s *scope) upgradable() outcome.Outcome {
	workers, reached := s.outcomes[infrav1.WorkersReadyCondition]
	if !reached || workers.Kind == outcome.Blocked || workers.Kind == outcome.Failed {
		return outcome.RetryAfter(0) // this pass has not read them: what was told stays
	}
	version, wanted := s.controlPlane.Spec.Version, s.cluster.Spec.Topology.Version
	var behind []string
	for _, md := range s.desired.made {
		if md.Spec.Template.Spec.Version != version {
			behind = append(behind, md.Name)
		}
	}
	if wanted != version && len(behind) > 0 && s.op == nil {
		return outcome.StallFor(0, infrav1.MachineDeploymentsBehindReason,
			"the ClusterClass has the upgrade to %s go by %s, where the nodes are now and these MachineDeployments are not: %s; the topology "+
				"controller would skip them, and waits for them. Set their spec.template.spec.version to %s, and upgrade one minor at a time",
			wanted, version, list(behind), version)
	}
	for _, n := range s.nodes {
		if kubelet := n.Status.NodeInfo.KubeletVersion; kubelet != version && sameRelease(kubelet, version) {
			return outcome.StallFor(0, infrav1.KubeletVersionDiffersReason,
				"Node %s reports version %s, and the topology controller compares that with %s as text: MachineDeployments never cease to count "+
					"as upgrading. A Cluster that is to be upgraded has to be created with spec.topology.version %s", n.Name, kubelet, version, kubelet)
		}
	}
	return outcome.DoneBecause(infrav1.TopologyUpgradableReason, "")
}

// sameRelease tells whether two versions differ in their suffixes at most.
func sameRelease(a, b string) bool {
	x, errX := semver.ParseTolerant(a)
	y, errY := semver.ParseTolerant(b)
	return errX == nil && errY == nil && x.FinalizeVersion() == y.FinalizeVersion()
}
