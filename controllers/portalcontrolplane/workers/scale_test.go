// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"testing"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

// TestMostWorkers checks how many workers the portal may be asked for. A cluster that has more already can be scaled down, or stay.
func TestMostWorkers(t *testing.T) {
	for title, test := range map[string]struct {
		workers, size, nodes int
		want                 bool
	}{
		"too large a creation":                   {maxWorkers + 1, operation.SizeUnknown, 0, false},
		"a scale-up":                             {maxWorkers, 2, 2, true},
		"too large a scale-up":                   {maxWorkers + 1, maxWorkers, maxWorkers, false},
		"a scale-down from beyond":               {700, 800, 800, true},
		"a scale-up from beyond":                 {801, 800, 800, false},
		"the size of nodes that have not joined": {800, 800, 300, true},
	} {
		t.Run(title, func(t *testing.T) {
			s := passed(func(s *scene) { s.Record.Size = test.size })
			o := Manageable(&s.Pass, test.workers, test.nodes)
			if o.IsDone() != test.want || !test.want && o.Reason != infrav1.TooManyNodesReason {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestActivityOf checks what an operation does to nodes.
func TestActivityOf(t *testing.T) {
	tests := map[string]struct {
		op *operation.Operation
		on claims.Activity
	}{
		"none":                   {nil, claims.Idle},
		"upgrade":                {&operation.Operation{Type: operation.Upgrade, Target: "v1.36.3"}, claims.ReplacingNodes},
		"scale up":               {&operation.Operation{Type: operation.Scale, From: 3, Target: "5"}, claims.AddingNodes},
		"scale down":             {&operation.Operation{Type: operation.Scale, From: 5, Target: "3"}, claims.RemovingNodes},
		"scale to the same size": {&operation.Operation{Type: operation.Scale, From: 3, Target: "3"}, claims.AddingNodes},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if got := activityOf(test.op); got != test.on {
				t.Errorf("it does %d to nodes, want %d", got, test.on)
			}
		})
	}
}

// TestLastRequest checks what is derived from the last operation.
func TestLastRequest(t *testing.T) {
	seen := []removal.NodeSnapshot{{UID: "u1"}, {UID: "u2"}, {UID: "u3"}}
	scale := func(from int, to string, result operation.Result) *operation.Operation {
		return &operation.Operation{Type: operation.Scale, From: from, Target: to, Before: seen, Result: result}
	}
	type want struct {
		compared, restored, adopted bool
	}
	workers := &infrav1.WorkerParameters{}
	tests := map[string]struct {
		last   *operation.Operation
		record operation.Record
		want   want
	}{
		"none, adopted":          {nil, operation.Record{Size: -1}, want{adopted: true}},
		"none, created":          {nil, operation.Record{Size: -1, Workers: workers}, want{}},
		"none, adopted, settled": {nil, operation.Record{Size: 3}, want{}},
		"adopted, upgraded":      {&operation.Operation{Type: operation.Upgrade, Result: operation.Succeeded}, operation.Record{Size: -1}, want{adopted: true}},
		"adopted, scale failed":  {scale(3, "5", operation.Failed), operation.Record{Size: -1}, want{}},
		"down refused":           {scale(3, "2", operation.Refused), operation.Record{Size: 3}, want{}},
		"down in flight":         {scale(3, "2", ""), operation.Record{Size: 2}, want{}},
		"down succeeded":         {scale(3, "2", operation.Succeeded), operation.Record{Size: 2}, want{compared: true, restored: true}},
		"up succeeded":           {scale(3, "5", operation.Succeeded), operation.Record{Size: 5}, want{restored: true}},
		"upgrade failed":         {&operation.Operation{Type: operation.Upgrade, Result: operation.Failed}, operation.Record{Size: 3}, want{}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			p, plan := &pass.Pass{State: operation.State{Record: test.record, Last: test.last}}, claims.Plan{}
			plan.Present = []claims.Node{{NodeID: claims.NodeID{UID: "u3"}}, {NodeID: claims.NodeID{UID: "u1"}}, {NodeID: claims.NodeID{UID: "u2"}}}
			_, finished := nodesBefore(p.Last)
			got := want{finished, changedNothing(p, plan), adopted(p)}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			plan.Present[0].UID = "u4"
			if changedNothing(p, plan) {
				t.Error("another set of nodes counts as the one that the portal was asked to restore")
			}
		})
	}
}
