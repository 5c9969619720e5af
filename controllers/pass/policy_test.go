// SPDX-License-Identifier: Apache-2.0

package pass

import (
	"testing"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestDeletionPolicy checks that a cluster which was taken over stays even if the policy that was written into spec is removed later.
func TestDeletionPolicy(t *testing.T) {
	const keep, remove = infrav1.DeletionPolicyRetain, infrav1.DeletionPolicyDelete
	for title, test := range map[string]struct {
		takenOver  bool
		spec, want infrav1.DeletionPolicy
	}{
		"created":            {false, "", remove},
		"created, Retain":    {false, keep, keep},
		"taken over":         {true, "", keep},
		"taken over, Delete": {true, remove, remove},
	} {
		p := &Pass{ControlPlane: &infrav1.PortalControlPlane{}}
		p.Record.TakenOver, p.ControlPlane.Spec.DeletionPolicy = test.takenOver, test.spec
		if got := p.DeletionPolicy(); got != test.want {
			t.Errorf("%s: %s, want %s", title, got, test.want)
		}
	}
}
