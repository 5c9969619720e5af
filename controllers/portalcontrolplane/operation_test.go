// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

func TestOperationReason(t *testing.T) {
	tests := map[string]struct {
		op     *operation.Operation
		reason string
		on     claims.Operation
	}{
		"none":                   {nil, infrav1.IdleReason, claims.Idle},
		"create":                 {&operation.Operation{Type: operation.Create, Target: "a-1"}, infrav1.CreatingReason, claims.ReplacingNodes},
		"upgrade":                {&operation.Operation{Type: operation.Upgrade, Target: "v1.36.3"}, infrav1.UpgradingReason, claims.ReplacingNodes},
		"delete":                 {&operation.Operation{Type: operation.Delete, Target: "id"}, infrav1.DeletingReason, claims.ReplacingNodes},
		"scale up":               {&operation.Operation{Type: operation.Scale, From: 3, Target: "5"}, infrav1.ScalingUpReason, claims.AddingNodes},
		"scale down":             {&operation.Operation{Type: operation.Scale, From: 5, Target: "3"}, infrav1.ScalingDownReason, claims.RemovingNodes},
		"scale to nothing":       {&operation.Operation{Type: operation.Scale, From: 5, Target: "0"}, infrav1.ScalingDownReason, claims.RemovingNodes},
		"scale to the same size": {&operation.Operation{Type: operation.Scale, From: 3, Target: "3"}, infrav1.ScalingUpReason, claims.AddingNodes},
		"lost creation":          {&operation.Operation{Type: operation.Create, Unknown: "cut off"}, infrav1.OutcomeUnknownReason, claims.ReplacingNodes},
		"lost upgrade":           {&operation.Operation{Type: operation.Upgrade, Unknown: "cut off"}, infrav1.UpgradingReason, claims.ReplacingNodes},
		"lost scale down":        {&operation.Operation{Type: operation.Scale, From: 5, Target: "3", Unknown: "cut off"}, infrav1.ScalingDownReason, claims.RemovingNodes},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if got := operationReason(test.op); got != test.reason {
				t.Errorf("reason %s, want %s", got, test.reason)
			}
			if got := operationOn(test.op); got != test.on {
				t.Errorf("it does %d to nodes, want %d", got, test.on)
			}
		})
	}
}

// TestNote checks what an operation leaves in the record.
func TestNote(t *testing.T) {
	up := operation.Operation{Type: operation.Scale, From: 3, Target: "5"}
	down := operation.Operation{Type: operation.Scale, From: 3, Target: "0"}
	upgrade := operation.Operation{Type: operation.Upgrade, Target: "v1.37.0"}
	ended := func(op operation.Operation, result operation.Result) operation.Operation {
		op.Result = result
		return op
	}
	accepted := func(op operation.Operation) operation.Operation { op.JobID = "job-1"; return op }
	lost := func(op operation.Operation) operation.Operation { op.Unknown = "cut off"; return op }
	noWorkers := &cloud.Error{Code: cloud.CodeInvalidParameter, Status: 400, Field: "size"}
	tests := map[string]struct {
		op      operation.Operation
		cause   error
		size    int
		version string
		result  operation.Result
	}{
		"scale accepted":                {accepted(up), nil, 5, "v1.36.3", ""},
		"scale succeeded":               {ended(up, operation.Succeeded), nil, 5, "v1.36.3", operation.Succeeded},
		"scale failed":                  {ended(up, operation.Failed), nil, 5, "v1.36.3", operation.Failed},
		"scale abandoned":               {ended(up, operation.Abandoned), nil, 5, "v1.36.3", operation.Abandoned},
		"scale lost":                    {lost(up), nil, 5, "v1.36.3", ""},
		"scale refused":                 {ended(up, operation.Refused), &cloud.Error{Code: cloud.CodeQuotaExceeded}, 3, "v1.36.3", operation.Refused},
		"scale refused for its size":    {ended(up, operation.Refused), noWorkers, 3, "v1.36.3", operation.Refused},
		"scale to nothing refused":      {ended(down, operation.Refused), noWorkers, 3, "v1.36.3", operation.Refused},
		"scale to nothing over quota":   {ended(down, operation.Refused), &cloud.Error{Code: cloud.CodeQuotaExceeded}, 3, "v1.36.3", operation.Refused},
		"scale to what is not a number": {accepted(operation.Operation{Type: operation.Scale, Target: "many"}), nil, operation.SizeUnknown, "v1.36.3", ""},
		"upgrade accepted":              {accepted(upgrade), nil, 3, "v1.36.3", ""},
		"upgrade succeeded":             {ended(upgrade, operation.Succeeded), nil, 3, "v1.37.0", operation.Succeeded},
		"upgrade failed":                {ended(upgrade, operation.Failed), nil, 3, "v1.36.3", operation.Failed},
		"upgrade lost":                  {lost(upgrade), nil, 3, "v1.36.3", ""},
		"delete failed":                 {ended(operation.Operation{Type: operation.Delete, Target: "id"}, operation.Failed), nil, 3, "v1.36.3", operation.Failed},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			record := operation.Record{Size: 3, Version: "v1.36.3", UserID: "user-1", AbandonedNames: []string{"a-1"}}
			s := &scope{controlPlane: &infrav1.PortalControlPlane{}, record: &record, op: &test.op}
			operation.PutRecord(s.controlPlane, s.record)
			for range 2 { // it is repeated until it is stored
				s.request().UpdateObject(&test.op, "", test.cause)
			}
			got, err := operation.LoadRecord(s.controlPlane)
			if err != nil {
				t.Fatal(err)
			}
			uncertain := test.op.Type == operation.Scale && (test.op.Lost() || test.op.Result == operation.Failed || test.op.Result == operation.Abandoned)
			insists := 0
			if title == "scale to nothing refused" {
				insists = 1
			}
			want := operation.Record{Size: test.size, MinWorkers: insists, SizeUncertain: uncertain, Version: test.version, UserID: "user-1", AbandonedNames: []string{"a-1"}}
			if diff := cmp.Diff(want, *got); diff != "" || test.op.Result != test.result {
				t.Errorf("result %q, record %s", test.op.Result, diff)
			}
		})
	}
}

// TestNoteCreation checks what a creation leaves on the object.
func TestNoteCreation(t *testing.T) {
	request := cloud.CreateClusterRequest{Name: "a-1", Size: 2, ServiceOfferingID: "small", SSHKeyPair: "ops", VPCID: "vpc-1"}
	workers := &infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	created := operation.Record{UID: "uid-1", UserID: "user-1", Size: 2, Version: "v1.36.3", Workers: workers, VPCID: "vpc-1", AbandonedNames: []string{"a-0"}}
	before := operation.Record{Size: operation.SizeUnknown, AbandonedNames: []string{"a-0"}}
	known := before
	known.ClusterID = "k8s-1"
	failed := operation.Record{Size: operation.SizeUnknown, AbandonedNames: []string{"a-0", "a-1"}}
	renamed := failed
	renamed.Name = "a-2"
	created.Portal, known.Portal = "portal.example:443", "portal.example:443"
	found, asked := created, &operation.Record{}
	found.ClusterID = "k8s-1"
	tests := map[string]struct {
		op     operation.Operation
		id     string
		record operation.Record
		chosen bool
		name   string
	}{
		"accepted":          {operation.Operation{JobID: "job-1", Record: asked}, "", created, false, "a-1"},
		"lost":              {operation.Operation{Unknown: "cut off", Record: asked}, "", before, false, "a-1"},
		"lost, then found":  {operation.Operation{Result: operation.Succeeded, Record: asked}, "k8s-1", found, false, "a-1"},
		"failed":            {operation.Operation{Result: operation.Failed}, "", renamed, false, "a-2"},
		"failed, as chosen": {operation.Operation{Result: operation.Failed}, "", failed, true, "a-1"},
		"succeeded":         {operation.Operation{Result: operation.Succeeded}, "k8s-1", known, false, "a-1"},
		"abandoned":         {operation.Operation{Result: operation.Abandoned}, "", before, false, "a-1"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			record := before
			s := &scope{controlPlane: &infrav1.PortalControlPlane{}, record: &record}
			s.controlPlane.UID, s.controlPlane.Spec.ClusterName, s.controlPlane.Spec.Version = "uid-1", "a-1", "v1.36.3"
			operation.PutRecord(s.controlPlane, s.record)
			test.op.Type, test.op.Target, test.op.Portal = operation.Create, "a-1", "portal.example:443"
			q := newCreation(s, request)
			q.record.UserID, q.generated, q.nextName = "user-1", !test.chosen, "a-2"
			s.controlPlane.Spec.Version = "v1.37.0" // changed since
			if test.op.Record != nil {
				test.op.Record = q.record
			}
			for range 2 {
				q.UpdateObject(&test.op, test.id, nil)
			}
			got, err := operation.LoadRecord(s.controlPlane)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.record, *got); diff != "" {
				t.Error(diff)
			}
			if s.controlPlane.Spec.ClusterID != test.id || s.controlPlane.Spec.ClusterName != test.name {
				t.Errorf("%+v", s.controlPlane.Spec)
			}
		})
	}
}

// TestLastRequest checks what is derived from the last operation.
func TestLastRequest(t *testing.T) {
	seen := []claims.NodeSnapshot{{UID: "u1"}, {UID: "u2"}, {UID: "u3"}}
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
		"down failed":            {scale(3, "2", operation.Failed), operation.Record{Size: 3, SizeUncertain: true}, want{}},
		"down abandoned":         {scale(3, "2", operation.Abandoned), operation.Record{Size: -1}, want{}},
		"down in flight":         {scale(3, "2", ""), operation.Record{Size: 2}, want{}},
		"down succeeded":         {scale(3, "2", operation.Succeeded), operation.Record{Size: 2}, want{compared: true, restored: true}},
		"up succeeded":           {scale(3, "5", operation.Succeeded), operation.Record{Size: 5}, want{restored: true}},
		"up refused":             {scale(3, "5", operation.Refused), operation.Record{Size: 3}, want{}},
		"upgrade failed":         {&operation.Operation{Type: operation.Upgrade, Result: operation.Failed}, operation.Record{Size: 3}, want{}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := &scope{last: test.last, record: &test.record, desired: desired{sum: 1}}
			s.plan.Present = []claims.Node{{UID: "u3"}, {UID: "u1"}, {UID: "u2"}}
			_, finished := s.nodesBefore()
			got := want{finished, s.restored(), s.adopted()}
			if got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			s.plan.Present[0].UID = "u4"
			if s.restored() {
				t.Error("another set of nodes counts as the one that the portal was asked to restore")
			}
		})
	}
}
