// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

func TestOperationReason(t *testing.T) {
	tests := map[string]struct {
		op     *operation.Operation
		reason string
	}{
		"none":                   {nil, infrav1.IdleReason},
		"create":                 {&operation.Operation{Type: operation.Create, Target: "a-1"}, infrav1.CreatingReason},
		"upgrade":                {&operation.Operation{Type: operation.Upgrade, Target: "v1.36.3"}, infrav1.UpgradingReason},
		"delete":                 {&operation.Operation{Type: operation.Delete, Target: "id"}, infrav1.DeletingReason},
		"scale up":               {&operation.Operation{Type: operation.Scale, From: 3, Target: "5"}, infrav1.ScalingUpReason},
		"scale down":             {&operation.Operation{Type: operation.Scale, From: 5, Target: "3"}, infrav1.ScalingDownReason},
		"scale to nothing":       {&operation.Operation{Type: operation.Scale, From: 5, Target: "0"}, infrav1.ScalingDownReason},
		"scale to the same size": {&operation.Operation{Type: operation.Scale, From: 3, Target: "3"}, infrav1.ScalingUpReason},
		"lost creation":          {&operation.Operation{Type: operation.Create, Unknown: "cut off"}, infrav1.OutcomeUnknownReason},
		"lost upgrade":           {&operation.Operation{Type: operation.Upgrade, Unknown: "cut off"}, infrav1.UpgradingReason},
		"lost scale down":        {&operation.Operation{Type: operation.Scale, From: 5, Target: "3", Unknown: "cut off"}, infrav1.ScalingDownReason},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if got := operationReason(test.op); got != test.reason {
				t.Errorf("reason %s, want %s", got, test.reason)
			}
		})
	}
}
