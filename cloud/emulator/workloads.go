// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"strings"
	"time"
)

// Workloads runs the Kubernetes clusters that the portal sells. The emulator decides which versions and nodes a cluster has,
// and Workloads carries that out. Package workload implements it with real API servers. Without an implementation, clusters are
// records of the portal only.
type Workloads interface {
	// Apply brings the cluster to the given state and returns when it is reached: API server answering at
	// Version, the given nodes registered and Ready, no others. It creates the cluster on its first call. It returns the
	// machines that it removed, also with an error.
	Apply(ctx context.Context, cluster Workload) ([]Removal, error)
	// Kubeconfig returns an administrator's kubeconfig file of the cluster.
	Kubeconfig(ctx context.Context, clusterID string) ([]byte, error)
	// Delete removes the cluster and its contents. An unknown id is no error.
	Delete(ctx context.Context, clusterID string) error
}

// Rotator is implemented by Workloads that can change how a cluster is reached while it runs.
type Rotator interface {
	// Rotate makes the change and returns when the API server answers to the kubeconfig that Kubeconfig returns from then on.
	Rotate(ctx context.Context, clusterID string, what Rotation) error
}

// Drainer is implemented by Workloads whose nodes run Pods.
type Drainer interface {
	// Drain cordons the Node and evicts its Pods through the eviction API, for at most the given time. The error names the Pods that are
	// left. A Node that does not exist has no Pods.
	Drain(ctx context.Context, clusterID, node string, atMost time.Duration) error
	// Cordon makes the Node unschedulable, or schedulable.
	Cordon(ctx context.Context, clusterID, node string, unschedulable bool) error
}

// Stopper is implemented by Workloads whose machines can stop.
type Stopper interface {
	// Stop ends the heartbeats of the Node, or lets them begin again.
	Stop(ctx context.Context, clusterID, node string, stopped bool) error
}

// Workload is the state wanted of one Kubernetes cluster.
type Workload struct {
	ID      string // the portal's cluster id
	Name    string // the portal's cluster name
	Version string // of the API server, for example "v1.36.3"
	Nodes   []Node // control nodes and workers, oldest first

	ControlMarks       ControlMarks  // of the control nodes among them
	KubeconfigLifetime time.Duration // of the credentials in each kubeconfig. 0 is a year
	BarePodsStay       bool          // a Pod without a controller fails a drain of its node at once, before any eviction
}

// Node is a machine that has joined, or is to join, a workload cluster.
type Node struct {
	Name         string `json:"name"`                   // of the Node object
	ID           string `json:"id"`                     // of the portal's instance. A Node that keeps its name but changes its ID is a new Node object
	ControlPlane bool   `json:"controlPlane,omitempty"` // marked as Workload.ControlMarks says
	Version      string `json:"version"`                // of the kubelet, for example "v1.36.3"
	ProviderID   string `json:"providerID,omitempty"`   // empty: the Node has none
	Gone         bool   `json:"gone,omitempty"`         // the machine is removed, its Node object stays behind (NotReady after a while)
	Stopped      bool   `json:"stopped,omitempty"`      // the machine exists and does not run (NotReady after a while)
}

// Removal is how Kubernetes saw a machine at the moment when the portal removed it. A Pod in Pods was killed.
type Removal struct {
	Machine     string    `json:"machine"` // Node.ID
	At          time.Time `json:"at"`
	By          JobKind   `json:"by,omitempty"`          // the job that removed it, set by the portal
	Cordoned    bool      `json:"cordoned"`              // the Node was unschedulable
	Ready       bool      `json:"ready"`                 // the Node was Ready
	Pods        []string  `json:"pods,omitempty"`        // that ran on it, as namespace/name, without those of DaemonSets and static ones
	Terminating []string  `json:"terminating,omitempty"` // the same, of Pods that were being deleted already
}

// String describes the removal in a few words.
func (r Removal) String() string {
	text := "schedulable"
	if r.Cordoned {
		text = "cordoned"
	}
	if !r.Ready {
		text += ", not Ready"
	}
	if len(r.Pods) > 0 {
		text += ", ran " + strings.Join(r.Pods, " ")
	}
	if len(r.Terminating) > 0 {
		text += ", was deleting " + strings.Join(r.Terminating, " ")
	}
	return text
}
