// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"regexp"
	"strings"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// portalName is what spec.clusterName may be.
var portalName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func TestGenerateName(t *testing.T) {
	for _, base := range []string{"a", "prod", "prod-eu-1", strings.Repeat("a", 57), strings.Repeat("a", 58), strings.Repeat("a", 253)} {
		name := generateName(base)
		if len(name) > 63 || !portalName.MatchString(name) {
			t.Errorf("%d characters make %q", len(base), name)
		}
		if short := base[:min(len(base), 57)]; !strings.HasPrefix(name, short+"-") {
			t.Errorf("%q is not found under %q", name, base)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		seen[generateName("prod")] = true
	}
	if len(seen) < 990 {
		t.Errorf("1000 names, %d different", len(seen))
	}
}

// TestFingerprint: another request, or another identity, is another attempt. Another name alone is not, because a failed creation
// gets a new one.
func TestFingerprint(t *testing.T) {
	base := cloud.CreateClusterRequest{Name: "a-1", Description: "d", ZoneID: "z", KubernetesVersionID: "k", ServiceOfferingID: "s", Size: 3, ControlNodes: 1, VPCID: "v"}
	with := func(change func(*cloud.CreateClusterRequest)) string {
		r := base
		change(&r)
		return fingerprint(r, "1")
	}
	first := fingerprint(base, "1")
	if with(func(r *cloud.CreateClusterRequest) { r.Name = "a-2" }) != first {
		t.Error("another name is another attempt: a refused request would be sent again at once")
	}
	others := []string{
		fingerprint(base, "2"),
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

// TestIsGenerated: a name that a person chose may be another user's cluster, even if it looks like one of ours.
func TestIsGenerated(t *testing.T) {
	for _, base := range []string{"a", "prod", "prod.eu", strings.Repeat("a", 253)} {
		for range 100 {
			if name := generateName(base); !isGenerated(base, name) {
				t.Errorf("%q of %q is not taken for one of ours", name, base)
			}
		}
	}
	for _, name := range []string{"", "prod", "prod-", "prod-west1", "prod-alpha", "prod-bcdfgh", "other-bcdfg", "prod-bcdf"} {
		if isGenerated("prod", name) {
			t.Errorf("%q is taken for one of ours", name)
		}
	}
}

// TestGenerateNameOfAnyObject: Kubernetes names may contain dots, but portal names must not.
func TestGenerateNameOfAnyObject(t *testing.T) {
	for _, base := range []string{"prod.eu", strings.Repeat("a", 56) + "-b", strings.Repeat("a", 56) + ".b"} {
		if name := generateName(base); len(name) > 63 || !portalName.MatchString(name) {
			t.Errorf("%q", name)
		}
	}
}
