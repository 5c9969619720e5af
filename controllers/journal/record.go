// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
)

// Record is what is known of a portal cluster and could not be found again.
type Record struct {
	// UserID is the portal user that created the cluster. Only under the same user does a 404 mean that it is gone
	// (specification, HTTP status codes: a 404 may mean another account's).
	UserID string `json:"userID,omitempty"`
	// Size is the number of workers that the portal last accepted; -1: to be counted.
	Size int `json:"size"`
	// Adopted is true until Machines and the nodes of a cluster that was taken over are one to one for the first time: until
	// then no node is removed that no Machine has held.
	Adopted bool `json:"adopted,omitempty"`
	// VictimOrder is the order in which the portal has been seen to remove workers.
	VictimOrder claims.Order `json:"victimOrder,omitempty"`
	// Before are the worker nodes that were there when the portal was asked for fewer, until they are compared with those
	// that it left.
	Before []claims.Sighting `json:"before,omitempty"`
	// RefusedSum is the sum of replicas for which the portal refused, or failed, to scale down. Nothing is drained for that sum
	// again.
	RefusedSum *int `json:"refusedSum,omitempty"`
	// Floor is how many workers the portal insists on; 0: nobody knows of any.
	Floor int `json:"floor,omitempty"`
	// Drift is the set of nodes, other than the size, for which the portal was asked once to restore the size.
	Drift string `json:"drift,omitempty"`
	// Version is the Kubernetes version last reached by the whole cluster, as spec.version writes it.
	Version string `json:"version,omitempty"`
	// FailedUpgrade is the version of an upgrade that failed half way and is still to be reached.
	FailedUpgrade string `json:"failedUpgrade,omitempty"`
	// Workers are what the cluster's workers were made of.
	Workers *infrav1.WorkerParameters `json:"workers,omitempty"`
	// NetworkID and VPCID are where the cluster was placed.
	NetworkID string `json:"networkID,omitempty"`
	VPCID     string `json:"vpcID,omitempty"`
	// AbandonedNames are names under which a create job failed; a record may remain at the portal.
	AbandonedNames []string `json:"abandonedNames,omitempty"`
}

// SizeUnknown is the Size of a cluster whose workers have to be counted.
const SizeUnknown = -1

// LoadRecord returns the record of the object; an empty one where there is none.
func LoadRecord(obj client.Object) (*Record, error) {
	record, err := load[Record](obj, infrav1.RecordAnnotation)
	if record == nil && err == nil {
		record = &Record{Size: SizeUnknown}
	}
	return record, err
}

// PutRecord stores the record on the object.
func PutRecord(obj client.Object, record *Record) { put(obj, infrav1.RecordAnnotation, record) }
