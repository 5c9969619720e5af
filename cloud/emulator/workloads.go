// SPDX-License-Identifier: Apache-2.0

package emulator

import "context"

// Workloads runs the Kubernetes clusters that the portal sells. The emulator decides what exists (versions, nodes,
// victims); Workloads makes it so. Package workload backs it with real API servers; without one the clusters
// exist in the portal's books only.
type Workloads interface {
	// Apply brings the cluster to the given state and returns when it is reached: API server answering at
	// Version, the given nodes registered and Ready, no others. It creates the cluster on its first call.
	Apply(ctx context.Context, cluster Workload) error
	// Kubeconfig returns an administrator's kubeconfig file of the cluster.
	Kubeconfig(ctx context.Context, clusterID string) ([]byte, error)
	// Delete removes the cluster with all it holds; unknown ids are no error.
	Delete(ctx context.Context, clusterID string) error
}

// Workload is the state wanted of one Kubernetes cluster.
type Workload struct {
	ID      string // the portal's cluster id
	Name    string // the portal's cluster name
	Version string // of the API server, for example "v1.36.3"
	Nodes   []Node // control nodes and workers, oldest first
}

// Node is a machine that has joined, or is to join, a workload cluster.
type Node struct {
	Name         string `json:"name"`                   // of the Node object
	ID           string `json:"id"`                     // of the portal's instance; a Node that keeps its name but changes its ID is a new Node object
	ControlPlane bool   `json:"controlPlane,omitempty"` // carries the label node-role.kubernetes.io/control-plane
	Version      string `json:"version"`                // of the kubelet, for example "v1.36.3"
	ProviderID   string `json:"providerID,omitempty"`   // empty: the Node has none
	Gone         bool   `json:"gone,omitempty"`         // the machine is no more, its Node object stays behind (NotReady after a while)
}
