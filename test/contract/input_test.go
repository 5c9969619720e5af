// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// shared returns a PortalClusterIdentity that is valid.
func (f *fixture) shared() *infrav1.PortalClusterIdentity {
	return &infrav1.PortalClusterIdentity{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}, Spec: infrav1.PortalClusterIdentitySpec{
		SecretRef:         infrav1.PortalClusterIdentitySecretReference{Name: "account"},
		AllowedNamespaces: &infrav1.PortalIdentityNamespaces{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}},
	}}
}

// wrong returns a copy of the object with a mistake.
func wrong[T client.Object](o T, mistake func(T)) client.Object {
	o, _ = o.DeepCopyObject().(T)
	mistake(o)
	return o
}

// TestBadInputIsRejected writes objects that cannot be valid.
func TestBadInputIsRejected(t *testing.T) {
	f := newFixture(t)
	pc, cp, shared := f.objects.PortalCluster, f.objects.ControlPlane, f.shared()
	for title, test := range map[string]struct {
		object client.Object
		says   string
	}{
		"network id and cidr": {wrong(pc, func(pc *infrav1.PortalCluster) {
			pc.Spec.Network = &infrav1.PortalNetwork{ID: "net-1", CIDR: "10.0.0.0/24"}
		}), "give either id (an existing network) or cidr (a new one)"},
		"vpc id and name": {wrong(pc, func(pc *infrav1.PortalCluster) {
			pc.Spec.VPC = infrav1.PortalVPC{ID: "vpc-1", Name: "default"}
		}), "give either id or name of the VPC"},
		"a host in a CIDR": {wrong(pc, func(pc *infrav1.PortalCluster) {
			pc.Spec.Network = &infrav1.PortalNetwork{CIDR: "10.0.0.7/24"}
		}), "without host bits"},
		"version without v": {wrong(cp, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = "1.36.3" }), "with a leading v"},
		"no zone":           {wrong(pc, func(pc *infrav1.PortalCluster) { pc.Spec.ZoneID = "" }), "zoneID"},
		"an identity with empty allowedNamespaces": {wrong(shared, func(i *infrav1.PortalClusterIdentity) {
			i.Spec.AllowedNamespaces = &infrav1.PortalIdentityNamespaces{}
		}), "spec.allowedNamespaces"},
		"an identity for what is no namespace's name": {wrong(shared, func(i *infrav1.PortalClusterIdentity) {
			i.Spec.AllowedNamespaces.List = []string{"Team_A"}
		}), "spec.allowedNamespaces.list[0]"},
		"an identity without a Secret": {wrong(shared, func(i *infrav1.PortalClusterIdentity) { i.Spec.SecretRef.Name = "" }), "spec.secretRef"},
	} {
		err := box.Client.Create(t.Context(), test.object)
		f.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%s: %v", title, err)
		f.Expect(err).To(MatchError(ContainSubstring(test.says)), title)
	}
	for _, valid := range []client.Object{pc, cp, shared} {
		f.create(valid)
	}
}

// TestReferencesCannotChange checks the references to accounts. An identityRef without a kind is a reference to a Secret.
func TestReferencesCannotChange(t *testing.T) {
	f := newFixture(t)
	shared, pc := f.shared(), f.objects.PortalCluster
	f.create(shared)
	f.create(pc)
	f.Expect(pc.Spec.IdentityRef.Kind).To(Equal(infrav1.PortalIdentitySecret))
	for _, test := range []struct {
		object      client.Object
		patch, says string
	}{
		{shared, `{"spec": {"secretRef": {"name": "another"}}}`, "secretRef cannot be changed"},
		{pc, `{"spec": {"identityRef": {"kind": "PortalClusterIdentity"}}}`, "identityRef cannot be changed"},
		{pc, `{"spec": {"identityRef": {"kind": "ConfigMap"}}}`, "spec.identityRef.kind"},
	} {
		f.Expect(f.merge(test.object, test.patch)).To(MatchError(ContainSubstring(test.says)), test.patch)
	}
}
