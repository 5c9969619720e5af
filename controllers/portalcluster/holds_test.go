// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestHoldsWarnOnce checks that a PortalCluster that waits for a person says so in one Warning, however many passes find the same, and
// that status.observedGeneration and Ready are about the spec at hand.
func TestHoldsWarnOnce(t *testing.T) {
	tests := map[string]struct {
		wrong  func(*bench)
		reason string
	}{
		"no Secret":       {func(b *bench) { b.delete(b.secret()) }, infrav1.IdentityInvalidReason},
		"a wrong key":     {func(b *bench) { b.set(infrav1.IdentityEmail, "") }, infrav1.IdentityInvalidReason},
		"a wrong login":   {func(b *bench) { b.set(infrav1.IdentityPassword, "wrong") }, infrav1.UnauthorizedReason},
		"a VPC like none": {func(b *bench) { b.rename("elsewhere") }, infrav1.RefusedReason},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			b := newBench(t, nil)
			test.wrong(b)
			b.reconcile(6)
			got := b.events()
			if strings.Count(got, "Warning") != 1 || !strings.HasPrefix(got, "Warning "+test.reason+" ") || strings.Contains(got, password) {
				t.Errorf("%q, want one Warning with reason %s", got, test.reason)
			}
			if c := b.get(); c.Status.ObservedGeneration != c.Generation || c.Status.ObservedGeneration == 0 {
				t.Errorf("observed %d of %d", c.Status.ObservedGeneration, c.Generation)
			}
		})
	}
}

func (b *bench) delete(s *corev1.Secret) {
	b.Helper()
	if err := b.store.Delete(b.Context(), s); err != nil {
		b.Fatal(err)
	}
}

// set changes a key of the Secret.
func (b *bench) set(name, value string) {
	b.Helper()
	s := b.secret()
	s.Data[name] = []byte(value)
	if err := b.store.Update(b.Context(), s); err != nil {
		b.Fatal(err)
	}
}

// rename names another VPC, in a spec of another generation.
func (b *bench) rename(vpc string) {
	b.Helper()
	b.change(func(c *infrav1.PortalCluster) { c.Spec.VPC.Name, c.Generation = vpc, 2 })
}
