// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// TestFingerprint: another request is another attempt. Another name alone is not, because a failed creation gets a new one.
func TestFingerprint(t *testing.T) {
	base := cloud.CreateClusterRequest{Name: "a-1", Description: "d", ZoneID: "z", KubernetesVersionID: "k", ServiceOfferingID: "s", Size: 3, ControlNodes: 1, VPCID: "v"}
	with := func(change func(*cloud.CreateClusterRequest)) string {
		r := base
		change(&r)
		return fingerprint(r)
	}
	first := fingerprint(base)
	if with(func(r *cloud.CreateClusterRequest) { r.Name = "a-2" }) != first {
		t.Error("another name is another attempt: a refused request would be sent again at once")
	}
	none, one := with(func(r *cloud.CreateClusterRequest) { r.Size = 0 }), with(func(r *cloud.CreateClusterRequest) { r.Size = 1 })
	if none != one || none == first {
		t.Error("no worker and one worker take turns: each refusal would make the other request at once")
	}
	others := []string{
		with(func(r *cloud.CreateClusterRequest) { r.Size = 4 }),
		with(func(r *cloud.CreateClusterRequest) { r.ControlNodes = 3 }),
		with(func(r *cloud.CreateClusterRequest) { r.KubernetesVersionID = "l" }),
		with(func(r *cloud.CreateClusterRequest) { r.NetworkID = "n" }),
		with(func(r *cloud.CreateClusterRequest) { r.SSHKeyPair = "p" }),
		with(func(r *cloud.CreateClusterRequest) { r.ServiceOfferingID = "t" }),
	}
	for i, other := range others {
		if other == first {
			t.Errorf("change %d makes no difference", i)
		}
	}
}
