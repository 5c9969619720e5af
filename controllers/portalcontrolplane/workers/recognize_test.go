// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// TestReadWorkers checks that workers are recognized by label, by taint, and by the selector.
func TestReadWorkers(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}}
	tests := map[string]struct {
		change   func(*corev1.Node)
		selector *metav1.LabelSelector
		want     bool // it is a worker
	}{
		"nothing":                    {want: true},
		"the label":                  {change: label("node-role.kubernetes.io/control-plane", "")},
		"the old label":              {change: label("node-role.kubernetes.io/master", "true")},
		"the taint":                  {change: taint("node-role.kubernetes.io/control-plane")},
		"the old taint":              {change: taint("node-role.kubernetes.io/master")},
		"another label":              {change: label("node-role.kubernetes.io/worker", ""), want: true},
		"another taint":              {change: taint("their.example/taint"), want: true},
		"selected":                   {change: label("role", "worker"), selector: selector, want: true},
		"not selected":               {change: label("role", "control"), selector: selector},
		"not labelled":               {selector: selector},
		"selected, and marked":       {change: both(label("role", "worker"), taint("node-role.kubernetes.io/control-plane")), selector: selector},
		"a selector that is invalid": {selector: &metav1.LabelSelector{MatchLabels: map[string]string{"!": ""}}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			n := nodeWith()
			if test.change != nil {
				test.change(n)
			}
			nodes, err := ReadNodes(t.Context(), fake.NewClientBuilder().WithObjects(n).Build(), test.selector)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(nodes.Workers) == 1; got != test.want || len(nodes.Workers)+len(nodes.others) != 1 {
				t.Errorf("a worker: %t", got)
			}
		})
	}
}

func label(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { metav1.SetMetaDataLabel(&n.ObjectMeta, key, value) }
}

func both(changes ...func(*corev1.Node)) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for _, change := range changes {
			change(n)
		}
	}
}

// TestRecognized: in a new cluster of 2 workers and 3 control nodes, no Machine is bound until workers and control nodes are
// known.
func TestRecognized(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}}
	tests := map[string]struct {
		unmarked, marked, selected int
		last                       operation.Type
		bound                      bool
		selector                   *metav1.LabelSelector
		holds                      string // a part of the message
	}{
		"marked":                       {unmarked: 2, marked: 3, last: operation.Create},
		"not shown at all":             {unmarked: 2, last: operation.Create},
		"not marked":                   {unmarked: 5, last: operation.Create, holds: "workerNodeSelector"},
		"some are marked":              {unmarked: 4, marked: 1, last: operation.Create},
		"bound before":                 {unmarked: 5, last: operation.Create, bound: true},
		"scaled since":                 {unmarked: 5, last: operation.Scale},
		"adopted":                      {unmarked: 5},
		"selected":                     {unmarked: 5, selected: 2, last: operation.Create, selector: selector},
		"none is selected":             {unmarked: 5, last: operation.Create, selector: selector, holds: "selects none of 5"},
		"none is selected of none":     {last: operation.Create, selector: selector},
		"a selector that is none":      {unmarked: 5, selector: &metav1.LabelSelector{MatchLabels: map[string]string{"!": ""}}, holds: "not a valid label selector"},
		"none is selected, long after": {unmarked: 5, bound: true, selector: selector, holds: "selects none of 5"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := &scene{Pass: pass.Pass{ControlPlane: &infrav1.PortalControlPlane{}, State: operation.State{Record: operation.Record{Size: 2}}}}
			if test.bound {
				s.members.portalMachines = []infrav1.PortalMachine{{Spec: infrav1.PortalMachineSpec{ProviderID: "portal:///w"}}}
			}
			s.ControlPlane.Spec.Replicas, s.ControlPlane.Spec.WorkerNodeSelector = ptr.To[int32](3), test.selector
			s.nodes.Workers = make([]corev1.Node, test.selected)
			if test.selector == nil {
				s.nodes.Workers = make([]corev1.Node, test.unmarked)
			}
			s.nodes.others = make([]corev1.Node, test.unmarked-len(s.nodes.Workers))
			for range test.marked {
				s.nodes.others = append(s.nodes.others, *nodeWith(taint(controlMarks[0])))
			}
			if test.last != "" {
				s.Last = operation.New(test.last, "x")
			}
			o := s.recognized(&s.Pass)
			if o.IsDone() != (test.holds == "") || !strings.Contains(o.Message, test.holds) || !o.IsDone() && o.Reason != infrav1.WorkersUnrecognizedReason {
				t.Errorf("%+v", o)
			}
		})
	}
}
