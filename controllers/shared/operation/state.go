// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// State is what an object stores about the portal. It is a value: a change makes another State, which counts once it is stored.
type State struct {
	// Record of the portal cluster.
	Record Record
	// Last is the last request, in flight or ended, or nil.
	Last *Operation
}

// Op returns the operation in flight, or nil.
func (s State) Op() *Operation {
	if s.Last.InFlight() {
		return s.Last
	}
	return nil
}

// Event is what became known about the last operation. It has a JobID, an Unknown or a Result.
type Event struct {
	// JobID: the portal runs the job, because it accepted the request, or because it knows the job of a lost creation after all.
	JobID string
	// Unknown is why it is not known whether the portal runs the operation, At since when.
	Unknown string
	At      metav1.Time
	// Result is how the operation ended.
	Result Result
	// Error is why the job failed, At when. Costly: repeating the operation may cost something (brake.go).
	Error  string
	Costly bool
	// CreatedID is the id of the resource that a creation created.
	CreatedID string
	// NextName replaces a generated name under which a creation failed, because a record may remain at the portal under it.
	NextName string
	// NoWorkers: the portal refused the request because a cluster needs workers.
	NoWorkers bool
}

// After returns the state after the event. No other function changes an operation in flight, nor what the record says because of its
// answer. An operation that has ended stays as it is.
func (s State) After(e Event) State {
	if !s.Last.InFlight() {
		return s
	}
	op := *s.Last
	switch {
	case e.Result != "":
		op.Result, op.Error = e.Result, e.Error
	case e.Unknown != "":
		op.Unknown, op.Time = e.Unknown, e.At
	default:
		op.JobID, op.Unknown = e.JobID, ""
	}
	switch {
	case e.NoWorkers:
		s.Record.MinWorkers = 1
	case op.Result == Refused && op.workers() == 1:
		s.Record.MinWorkers = 0 // one worker does not help, so the portal did not refuse 0 for their number
	case op.Type == Create:
		s.Record = s.Record.afterCreation(op, e)
	case op.Type == Scale:
		s.Record = s.Record.afterScale(op)
	case op.Type == Upgrade:
		s.Record = s.Record.afterUpgrade(op)
	}
	switch {
	case e.Result == Succeeded:
		s.Record = s.Record.succeeded(op.Type)
	case e.Costly:
		s.Record = s.Record.Failed(&op, e.At)
	}
	s.Last = &op
	return s
}

// afterCreation: the record of the creation counts from the time when the portal accepts it. After a failed job, a generated name is
// replaced. A name that the user chose is sent again. If the portal reports that it is taken, the user has to choose another one.
func (r Record) afterCreation(op Operation, e Event) Record {
	if op.Record != nil && (e.JobID != "" || e.Result == Succeeded && r.Workers == nil) { // nil: the answer that accepted it was lost
		r = *op.Record
		r.Portal = op.Portal
	}
	switch e.Result {
	case Succeeded:
		r.ClusterID, r.Portal = e.CreatedID, op.Portal
	case Failed:
		next := Record{
			UID: r.UID, Size: SizeUnknown, MinWorkers: r.MinWorkers, AbandonedNames: slices.Clone(r.AbandonedNames), Failures: r.Failures,
		}
		if !slices.Contains(next.AbandonedNames, op.Target) {
			next.AbandonedNames = append(next.AbandonedNames, op.Target)
		}
		next.AbandonedNames = next.AbandonedNames[max(0, len(next.AbandonedNames)-maxAbandonedNames):]
		if r.Generated(op.Target) {
			next.Name = e.NextName
		}
		return next
	case Refused, Abandoned:
	}
	return r
}

// afterScale: after a scale that failed half way, or whose answer was lost, the portal runs at most the larger of both numbers.
func (r Record) afterScale(op Operation) Record {
	switch {
	case op.Result == Refused: // the size is what it was
	case op.Lost(), op.Result == Failed, op.Result == Abandoned:
		r.Size, r.SizeUncertain = max(op.From, op.Size()), true
	default:
		r.Size, r.SizeUncertain = op.Size(), false
		if op.Size() > max(op.From, r.MinWorkers) {
			r.MinWorkers = 0 // more are wanted. The next time that none are, the portal is asked again
		}
	}
	return r
}

// afterUpgrade: an upgrade that failed may have changed the access to the cluster too.
func (r Record) afterUpgrade(op Operation) Record {
	if op.Result == Succeeded {
		r.Version = op.Target
	}
	if op.Result != "" && op.Result != Refused {
		r.UpgradeID = op.ID
	}
	return r
}

// put makes the change of the object that the event brings, besides its annotations.
func (e Event) put(obj client.Object, s State) {
	op := s.Last
	if e.Result == "" {
		return
	}
	if infrav1.DecisionRetry.MadeOn(obj, op.ID) || infrav1.DecisionAbandon.MadeOn(obj, op.ID) { // others have not been carried out
		delete(obj.GetAnnotations(), infrav1.DecisionAnnotation)
	}
	cp, _ := obj.(*infrav1.PortalControlPlane)
	switch {
	case op.Is(CreateNetwork) && e.Result == Succeeded:
		annotations.AddAnnotations(obj, map[string]string{infrav1.NetworkAnnotation: e.CreatedID})
	case op.Is(Create) && e.Result == Succeeded:
		cp.Spec.ClusterID = e.CreatedID
	case op.Is(Create) && e.Result == Failed && s.Record.Name != "" && cp.Spec.ClusterName == op.Target:
		cp.Spec.ClusterName = s.Record.Name
	}
}

// Load returns the state of the object. If an annotation cannot be read, nothing must be done for the object. The other one is
// returned all the same.
func Load(obj client.Object) (s State, err error) {
	s.Record, err = LoadRecord(obj)
	text, found := obj.GetAnnotations()[infrav1.OperationAnnotation]
	if !found {
		return s, err
	}
	last := &Operation{}
	if unreadable := read(infrav1.OperationAnnotation, text, last); unreadable != nil {
		return s, unreadable
	}
	s.Last = last
	return s, err
}

// LoadRecord returns the record of the object, or an empty one.
func LoadRecord(obj client.Object) (Record, error) {
	text, found := obj.GetAnnotations()[infrav1.RecordAnnotation]
	if !found {
		return Record{Size: SizeUnknown}, nil
	}
	record := Record{}
	if err := read(infrav1.RecordAnnotation, text, &record); err != nil {
		return Record{}, err
	}
	return record, nil
}

func read(annotation, text string, into any) error {
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("annotation %s cannot be read: %w. Restore it from a backup, or correct it", annotation, err)
	}
	return nil
}

// Put writes the state into the annotations of the object. An object without a portal cluster gets no record. Until the portal's
// answer is stored, the object must not be moved to another management cluster. The permission to repeat a failed operation goes with its
// record.
func (s State) Put(obj client.Object) {
	stored, _ := LoadRecord(obj) // one that cannot be read has no failures
	for t, f := range stored.Failures {
		if f.ID != s.Record.Failures[t].ID && infrav1.DecisionRetry.MadeOn(obj, f.ID) {
			delete(obj.GetAnnotations(), infrav1.DecisionAnnotation)
		}
	}
	put := map[string]string{}
	if _, recorded := obj.GetAnnotations()[infrav1.RecordAnnotation]; recorded || !s.Record.isEmpty() {
		put[infrav1.RecordAnnotation] = text(s.Record)
	}
	delete(obj.GetAnnotations(), infrav1.OperationAnnotation)
	delete(obj.GetAnnotations(), clusterctlv1.BlockMoveAnnotation)
	if op := s.Last; op != nil {
		put[infrav1.OperationAnnotation] = text(op)
		if op.InFlight() && op.JobID == "" && op.Unknown == "" {
			put[clusterctlv1.BlockMoveAnnotation] = "true"
		}
	}
	annotations.AddAnnotations(obj, put)
}

func text(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // plain structs of strings and numbers
	}
	return string(text)
}
