// SPDX-License-Identifier: Apache-2.0

package capibehavior

import "testing"

// TestFacts checks the facts on which package claims relies, with the core manager of the version in go.mod.
func TestFacts(t *testing.T) {
	if box == nil {
		t.Skip("PORTAL_TEST_WITHOUT_KUBE is set: no Kubernetes binaries wanted")
	}
	t.Run("1_which_Machine_goes", whichMachineGoes)
	t.Run("2_how_a_Machine_goes", howMachineGoes)
	t.Run("3_providerID_and_nodeRef", providerIDAndNodeRef)
	t.Run("4_up_to_date", upToDate)
	t.Run("5_preflight", preflight)
	t.Run("6_remediation", remediation)
	t.Run("7_takeover", takeover)
}
