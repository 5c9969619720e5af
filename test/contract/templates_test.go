// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestTemplatesCannotChange tries to change each kind of template whose spec has fields. Only the topology controller's dry run
// may change a template, and it has an annotation. The API server refuses all other changes, also in a dry run.
func TestTemplatesCannotChange(t *testing.T) {
	f := newFixture(t)
	meta := metav1.ObjectMeta{Namespace: f.namespace, Name: "constant"}
	cluster := &infrav1.PortalClusterTemplate{ObjectMeta: meta}
	controlPlane := &infrav1.PortalControlPlaneTemplate{ObjectMeta: meta}
	machine := &infrav1.PortalMachineTemplate{ObjectMeta: meta}
	machine.Spec.Template.Spec = infrav1.WorkerParameters{ServiceOfferingID: "a", SSHKeyPair: "a"}
	templates := map[client.Object]func(){
		cluster:      func() { cluster.Spec.Template.Spec.ZoneID = "other" },
		controlPlane: func() { controlPlane.Spec.Template.Spec.Description = "other" },
		machine:      func() { machine.Spec.Template.Spec.SSHKeyPair = "other" },
	}
	for template, alter := range templates {
		f.create(template)
		original, _ := template.DeepCopyObject().(client.Object)
		try := func(options ...client.PatchOption) error {
			candidate, _ := template.DeepCopyObject().(client.Object)
			return box.Client.Patch(t.Context(), candidate, client.MergeFrom(original), options...)
		}
		alter()
		refused := And(MatchError(apierrors.IsInvalid, "IsInvalid"), MatchError(ContainSubstring("cannot be changed: make a new Portal")))
		f.Expect(try()).To(refused, "%T", template)
		f.Expect(try(client.DryRunAll)).To(refused, "%T", template)
		template.SetAnnotations(map[string]string{clusterv1.TopologyDryRunAnnotation: ""})
		f.Expect(try(client.DryRunAll)).To(Succeed(), "%T", template)
		f.Expect(try()).To(refused, "%T: the annotation allows only dry runs", template)

		f.Expect(box.Client.Get(t.Context(), client.ObjectKeyFromObject(template), template)).To(Succeed())
		template.SetLabels(map[string]string{"mine": "too"})
		f.Expect(box.Client.Update(t.Context(), template)).To(Succeed(), "%T: the labels of the template itself", template)
	}
}
