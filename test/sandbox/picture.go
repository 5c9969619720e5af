// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
)

// workloadTimeout is how long the picture waits for a workload cluster. During an upgrade the API server restarts, and the picture shows no
// drains until it answers again.
const workloadTimeout = time.Second

// startPage serves the page with the picture of the sandbox.
func (s *Sandbox) startPage(ctx context.Context) error {
	if s.options.PageAddress == "" || s.Portal == nil {
		return nil
	}
	reader := &pictureReader{Sandbox: s, workloads: map[string]client.Reader{}}
	var err error
	s.page, err = page.Listen(ctx, s.options.PageAddress, page.Options{
		Portal: s.Portal, Title: "Sandbox of the portal provider", Kubernetes: reader.read, Act: s.act, Step: s.step.Load,
	})
	if err == nil {
		s.PageURL = s.page.URL
	}
	return err
}

// pictureReader reads the picture's objects from Kubernetes.
type pictureReader struct {
	*Sandbox
	mu        sync.Mutex
	workloads map[string]client.Reader // by the portal's id of the cluster
}

// read lists the Clusters with their objects, Machines and Nodes.
func (r *pictureReader) read(ctx context.Context) (page.Kubernetes, error) {
	if r.options.WithoutCore {
		return page.Kubernetes{}, nil
	}
	machines, portalMachines, controlPlanes := &clusterv1.MachineList{}, &infrav1.PortalMachineList{}, &infrav1.PortalControlPlaneList{}
	for _, list := range []client.ObjectList{machines, portalMachines, controlPlanes} {
		if err := r.Client.List(ctx, list); err != nil {
			return page.Kubernetes{}, err
		}
	}
	clusters, err := r.clusters(ctx, controlPlanes.Items, machines.Items)
	return page.Kubernetes{
		Clusters: clusters,
		Machines: pictured(machines.Items, portalMachines.Items, controlPlanes.Items),
		Nodes:    r.nodes(ctx),
	}, err
}

// pictured returns the Machines in the picture's format, sorted by name. A Machine and its PortalMachine have the same name.
func pictured(machines []clusterv1.Machine, portalMachines []infrav1.PortalMachine, controlPlanes []infrav1.PortalControlPlane) []page.Machine {
	ids := map[client.ObjectKey]string{} // of portal clusters, by Cluster
	for _, c := range controlPlanes {
		ids[client.ObjectKey{Namespace: c.Namespace, Name: c.Labels[clusterv1.ClusterNameLabel]}] = c.Spec.ClusterID
	}
	found := map[client.ObjectKey]*infrav1.PortalMachine{}
	for i := range portalMachines {
		found[client.ObjectKeyFromObject(&portalMachines[i])] = &portalMachines[i]
	}
	slices.SortFunc(machines, func(a, b clusterv1.Machine) int { // of two Machines on a node, the older one first
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	holders := map[infrav1.BoundNode]string{}
	out := make([]page.Machine, 0, len(machines))
	for i := range machines {
		m := &machines[i]
		shown := page.Machine{
			Name: m.Name, Cluster: m.Spec.ClusterName, Version: m.Spec.Version,
			ClusterID: ids[client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}],
		}
		node := claimed(found[client.ObjectKeyFromObject(m)])
		shown.State = machineState(m, found[client.ObjectKeyFromObject(m)])
		if node != nil {
			shown.Node = node.Name
			if holder := holders[*node]; holder != "" && m.DeletionTimestamp.IsZero() {
				shown.State, shown.From = page.MachineTakeover, holder
			}
			holders[*node] = m.Name
		}
		out = append(out, shown)
	}
	slices.SortFunc(out, func(a, b page.Machine) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// claimed returns the node that a PortalMachine claims, or nil.
func claimed(claim *infrav1.PortalMachine) *infrav1.BoundNode {
	if claim == nil || claims.IsReleased(claim.Spec.ProviderID) {
		return nil
	}
	return claim.Spec.Node
}

// machineState returns the state of a Machine, as far as the Machine and its PortalMachine show it.
func machineState(m *clusterv1.Machine, claim *infrav1.PortalMachine) page.MachineState {
	deletion := m.Status.Deletion
	switch {
	case claim != nil && claims.IsReleased(claim.Spec.ProviderID):
		return page.MachineReleased
	case !m.DeletionTimestamp.IsZero() && deletion != nil && !deletion.WaitForPreTerminateHookStartTime.IsZero():
		return page.MachineDrained
	case !m.DeletionTimestamp.IsZero() && deletion != nil && !deletion.NodeDrainStartTime.IsZero():
		return page.MachineDraining
	case !m.DeletionTimestamp.IsZero():
		return page.MachineHeld
	case claimed(claim) == nil:
		return page.MachineWaiting
	case !m.Status.NodeRef.IsDefined():
		return page.MachineJoining
	}
	return page.MachineRunning
}

// nodes returns the Nodes of the workload clusters. It ignores a cluster whose API server does not answer.
func (r *pictureReader) nodes(ctx context.Context) (out []page.Node) {
	for _, c := range r.Portal.Clusters() {
		reader := r.workload(ctx, c)
		if reader == nil {
			continue
		}
		nodes := &corev1.NodeList{}
		if err := reader.List(ctx, nodes); err != nil {
			continue
		}
		for _, n := range nodes.Items {
			ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
			out = append(out, page.Node{ClusterID: c.ID, Name: n.Name, State: nodeState(&n), Ready: ready})
		}
	}
	return out
}

// nodeState returns the drain state of a Node, or "" if the Node accepts Pods.
func nodeState(n *corev1.Node) page.NodeState {
	switch {
	case n.Annotations[infrav1.DrainedAnnotation] != "":
		return page.NodeDrained
	case n.Annotations[infrav1.DrainStartedAnnotation] != "":
		return page.NodeDraining
	case n.Spec.Unschedulable:
		return page.NodeCordoned
	}
	return ""
}

// workload returns a client of a workload cluster, or nil if the cluster has no API server.
func (r *pictureReader) workload(ctx context.Context, c emulator.Cluster) client.Reader {
	if r.Sandbox.workloads == nil || c.State == emulator.ClusterDeleting {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.workloads[c.ID]; known != nil {
		return known
	}
	kubeconfig, err := r.Sandbox.workloads.Kubeconfig(ctx, c.ID)
	if err != nil {
		return nil
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil
	}
	config.Timeout = workloadTimeout
	reader, err := client.New(config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil
	}
	r.workloads[c.ID] = reader
	return reader
}
