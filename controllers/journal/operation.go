// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Type of an operation.
type Type string

// The operations that the portal runs as jobs.
const (
	Create        Type = "create"
	Scale         Type = "scale"
	Upgrade       Type = "upgrade"
	Delete        Type = "delete"
	CreateNetwork Type = "create-network"
)

// Operation is the one operation in flight for an object.
type Operation struct {
	// ID names the operation to people.
	ID   string `json:"id"`
	Type Type   `json:"type"`
	// Target is what it is to reach: a cluster name, a size, a version, a CIDR.
	Target string `json:"target"`
	// Time of the intent, for create and its kind also the age of an unknown outcome.
	Time metav1.Time `json:"time"`
	// JobID of the portal; empty until the portal has answered.
	JobID string `json:"jobID,omitempty"`
	// Attempt is a fingerprint of all that went into the request: after a failure the same attempt waits its time.
	Attempt string `json:"attempt,omitempty"`
	// From is the size before a scale, and Sum the sum of replicas that it was for; it may go there in steps.
	From int `json:"from,omitempty"`
	Sum  int `json:"sum,omitempty"`
	// Unknown says why nobody knows how the operation ended.
	Unknown string `json:"unknown,omitempty"`
	// Searched is true when the portal was asked for a resource of that name and could not tell.
	Searched bool `json:"searched,omitempty"`
}

// New returns an operation that is about to be intended.
func New(t Type, target string) *Operation {
	return &Operation{ID: rand.String(8), Type: t, Target: target, Time: metav1.Now()}
}

// Load returns the operation in flight, or nil.
func Load(obj client.Object) (*Operation, error) {
	return load[Operation](obj, infrav1.OperationAnnotation)
}

// Put makes op the operation in flight; nil: there is none. While the portal's answer is not stored the object must not
// be moved to another management cluster.
func Put(obj client.Object, op *Operation) {
	put(obj, infrav1.OperationAnnotation, op)
	setAnnotation(obj, clusterctlv1.BlockMoveAnnotation, "true", op != nil && op.JobID == "" && op.Unknown == "")
}

// RetryAllowed tells whether a person has allowed one retry of the operation, whose outcome is unknown.
func RetryAllowed(obj client.Object, op *Operation) bool {
	return obj.GetAnnotations()[infrav1.RetryOperationAnnotation] == op.ID
}

// BlocksMove tells whether the object carries clusterctl's block-move annotation.
func BlocksMove(obj client.Object) bool {
	_, blocked := obj.GetAnnotations()[clusterctlv1.BlockMoveAnnotation]
	return blocked
}

// LetMove takes clusterctl's block-move annotation off a paused object: no call is under way, since its reconciler is the
// only one that makes calls for it, so its operation may move along.
func (w Writer) LetMove(ctx context.Context, obj client.Object) error {
	if !BlocksMove(obj) {
		return nil
	}
	return w.Change(ctx, obj, func() { delete(obj.GetAnnotations(), clusterctlv1.BlockMoveAnnotation) })
}

func load[T any](obj client.Object, annotation string) (*T, error) {
	text, found := obj.GetAnnotations()[annotation]
	if !found {
		return nil, nil //nolint:nilnil // no operation is no error
	}
	value := new(T)
	if err := json.Unmarshal([]byte(text), value); err != nil {
		return nil, fmt.Errorf("annotation %s is not what this provider wrote; restore it from a backup or correct it: %w", annotation, err)
	}
	return value, nil
}

func put[T any](obj client.Object, annotation string, value *T) {
	if value == nil {
		setAnnotation(obj, annotation, "", false)
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // plain structs of strings and numbers
	}
	setAnnotation(obj, annotation, string(text), true)
}

func setAnnotation(obj client.Object, key, value string, present bool) {
	annotations := obj.GetAnnotations()
	if !present {
		delete(annotations, key)
		return
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
}
