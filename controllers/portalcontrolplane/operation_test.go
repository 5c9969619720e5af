// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/journal"
)

func TestOperationReason(t *testing.T) {
	tests := map[string]struct {
		op     *journal.Operation
		reason string
		on     claims.Operation
	}{
		"none":                   {nil, infrav1.IdleReason, claims.Idle},
		"create":                 {&journal.Operation{Type: journal.Create, Target: "a-1"}, infrav1.CreatingReason, claims.Replaces},
		"upgrade":                {&journal.Operation{Type: journal.Upgrade, Target: "v1.36.3"}, infrav1.UpgradingReason, claims.Replaces},
		"delete":                 {&journal.Operation{Type: journal.Delete, Target: "id"}, infrav1.DeletingReason, claims.Replaces},
		"scale up":               {&journal.Operation{Type: journal.Scale, From: 3, Target: "5"}, infrav1.ScalingUpReason, claims.AddsNodes},
		"scale down":             {&journal.Operation{Type: journal.Scale, From: 5, Target: "3"}, infrav1.ScalingDownReason, claims.RemoveNodes},
		"scale to nothing":       {&journal.Operation{Type: journal.Scale, From: 5, Target: "0"}, infrav1.ScalingDownReason, claims.RemoveNodes},
		"scale to the same size": {&journal.Operation{Type: journal.Scale, From: 3, Target: "3"}, infrav1.ScalingUpReason, claims.AddsNodes},
		"unknown outcome":        {&journal.Operation{Type: journal.Create, Unknown: "cut off"}, infrav1.OutcomeUnknownReason, claims.Replaces},
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

// TestRemember: what a finished operation leaves in the record.
func TestRemember(t *testing.T) {
	type want struct {
		size            int
		version, failed string
		refused         int // -1: nothing
	}
	up := journal.Operation{Type: journal.Scale, From: 3, Target: "5"}
	down := journal.Operation{Type: journal.Scale, From: 3, Target: "2", Sum: 1} // step by step
	upgrade := journal.Operation{Type: journal.Upgrade, Target: "v1.37.0"}
	tests := map[string]struct {
		op     journal.Operation
		failed bool
		want   want
	}{
		"scale":                {up, false, want{5, "v1.36.3", "v1.36.9", -1}},
		"scale down":           {down, false, want{2, "v1.36.3", "v1.36.9", -1}},
		"scale failed":         {up, true, want{journal.SizeUnknown, "v1.36.3", "v1.36.9", -1}},
		"scale down failed":    {down, true, want{journal.SizeUnknown, "v1.36.3", "v1.36.9", 1}},
		"scale nobody can say": {journal.Operation{Type: journal.Scale, From: 3, Target: "many"}, false, want{journal.SizeUnknown, "v1.36.3", "v1.36.9", -1}},
		"upgrade":              {upgrade, false, want{3, "v1.37.0", "", -1}},
		"upgrade failed":       {upgrade, true, want{3, "v1.36.3", "v1.37.0", -1}},
		"delete failed":        {journal.Operation{Type: journal.Delete, Target: "id"}, true, want{3, "v1.36.3", "v1.36.9", -1}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			record := &journal.Record{Size: 3, Version: "v1.36.3", FailedUpgrade: "v1.36.9", UserID: "user-1"}
			remember(record, &test.op, test.failed)
			if got := (want{record.Size, record.Version, record.FailedUpgrade, ptr.Deref(record.RefusedSum, -1)}); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if record.UserID != "user-1" {
				t.Error("the rest of the record is lost")
			}
		})
	}
}

// TestDescribe: the words that conditions and events use for an operation.
func TestDescribe(t *testing.T) {
	tests := map[string]journal.Operation{
		"scale from 3 to 5 workers": {Type: journal.Scale, From: 3, Target: "5"},
		"upgrade to v1.37.0":        {Type: journal.Upgrade, Target: "v1.37.0"},
		"delete cluster k8s-1":      {Type: journal.Delete, Target: "k8s-1"},
		"create a-1":                {Type: journal.Create, Target: "a-1"},
	}
	for want, op := range tests {
		if got := describe(&op); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
