// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// Record holds facts about a portal cluster that cannot be read back from the portal or from Kubernetes.
type Record struct {
	// UID of the object that wrote the record. A copy of the object, such as a clone or a restored backup, has another UID.
	UID types.UID `json:"uid,omitempty"`
	// ClusterID is the portal cluster that the record is about, which the object has created or claimed. The object owns the
	// cluster only if UID is its own too. When a person sets spec.clusterID to another id, the object claims that cluster with a
	// new record.
	ClusterID string `json:"clusterID,omitempty"`
	// Portal is the portal of the cluster (cloud.Address). The cluster's id is valid there only. It is empty until the identity
	// is known.
	Portal string `json:"portal,omitempty"`
	// Name is the name that the provider generated for the cluster, unless the user chose one. A cluster found by its name is
	// known to be the object's own only if the name was generated: a user may choose the name of another cluster.
	Name string `json:"name,omitempty"`
	// TakenOver is true if the object claimed a cluster that it did not create. Then an empty deletionPolicy means Retain.
	TakenOver bool `json:"takenOver,omitempty"`
	// UserID is the portal user that created the cluster. Only under the same user does a 404 mean that it is gone
	// (specification, HTTP status codes: a 404 may mean another account's).
	UserID string `json:"userID,omitempty"`
	// Size is the number of workers that the portal last accepted, or SizeUnknown if the cluster is adopted and was never scaled.
	Size int `json:"size"`
	// SizeUncertain is true if a scale failed half way, its answer was lost, or the cluster was scaled outside of the provider.
	// The portal then runs at most Size workers, as far as is known.
	SizeUncertain bool `json:"sizeUncertain,omitempty"`
	// MinWorkers is 1 if the portal refused a cluster without workers. One worker stays then, until more are wanted again.
	MinWorkers int `json:"minWorkers,omitempty"`
	// RemovalOrder is what the scale-downs of the cluster have shown about the order in which the portal removes workers. One scale-down
	// that shows an order is enough.
	RemovalOrder removal.Evidence `json:"removalOrder,omitzero"`
	// Version is the Kubernetes version that the whole cluster has reached: what the portal last installed at the provider's
	// request, or what the API server shows.
	Version string `json:"version,omitempty"`
	// Workers are the parameters that the cluster was created with.
	Workers *infrav1.WorkerParameters `json:"workers,omitempty"`
	// ZoneID, NetworkID and VPCID are where the cluster was placed. The PortalCluster may say something else: a user may correct
	// it while the request is on its way.
	ZoneID    string `json:"zoneID,omitempty"`
	NetworkID string `json:"networkID,omitempty"`
	VPCID     string `json:"vpcID,omitempty"`
	// UpgradeID is the last upgrade that has ended otherwise than by a refusal. The kubeconfig is fetched after it.
	UpgradeID string `json:"upgradeID,omitempty"`
	// KubeconfigDigest identifies the kubeconfig that the provider stored last. A Secret with another content was written by
	// someone else.
	KubeconfigDigest string `json:"kubeconfigDigest,omitempty"`
	// Endpoint is the API server in the kubeconfig that was used last. If spec.controlPlaneEndpoint differs, the user chose it.
	Endpoint clusterv1.APIEndpoint `json:"endpoint,omitzero"`
	// AbandonedNames are the cluster names of the last failed create jobs. A record under each of them may remain at the portal.
	AbandonedNames []string `json:"abandonedNames,omitempty"`
	// Failures are the costly failures since the last success, by the type of the operation (brake.go).
	Failures map[Type]Failures `json:"failures,omitempty"`
}

// SizeUnknown is the Size of an adopted cluster that the provider never scaled.
const SizeUnknown = -1

// Generated reports whether the provider generated the name of the cluster. A user can choose a name that looks generated.
func (r Record) Generated(name string) bool { return r.Name != "" && r.Name == name }

// isEmpty reports whether nothing was ever recorded.
func (r Record) isEmpty() bool { return equality.Semantic.DeepEqual(r, Record{Size: SizeUnknown}) }
