// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// TestHoldsBeforeItBinds: no Machine is bound, and the portal is asked for nothing, while control nodes may be taken for workers.
func TestHoldsBeforeItBinds(t *testing.T) {
	now := ""
	withFixture(t, &now, func(f *fixture) {
		control := &corev1.NodeList{}
		if err := f.nodes.List(f.Context(), control); err != nil {
			t.Fatal(err)
		}
		for i := range control.Items {
			control.Items[i].Labels = nil
			if err := f.nodes.Update(f.Context(), &control.Items[i]); err != nil {
				t.Fatal(err)
			}
		}
		create := operation.New(operation.Create, "prod")
		create.Result = operation.Succeeded
		f.change(func(cp *infrav1.PortalControlPlane) {
			put(cp, create)
			cp.Spec.Replicas = ptr.To[int32](1)
		})
		f.scale(5)
		for range 3 {
			s := f.pass()
			if o := s.outcomes[infrav1.WorkersReadyCondition]; o.Reason != infrav1.WorkersUnrecognizedReason {
				t.Errorf("%+v", o)
			}
		}
		if got := f.answers("scale"); len(got) != 0 {
			t.Errorf("scale: %q", got)
		}
		f.change(func(cp *infrav1.PortalControlPlane) {
			cp.Spec.WorkerNodeSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "their.example/control", Operator: metav1.LabelSelectorOpDoesNotExist},
			}}
		})
		for i := range control.Items {
			if strings.Contains(control.Items[i].Name, "-c-") {
				metav1.SetMetaDataLabel(&control.Items[i].ObjectMeta, "their.example/control", "")
				if err := f.nodes.Update(f.Context(), &control.Items[i]); err != nil {
					t.Fatal(err)
				}
			}
		}
		s := f.pass()
		if got := f.answers("scale"); len(s.nodes.Workers) != 2 || len(got) != 1 {
			t.Errorf("%d workers, scale: %q", len(s.nodes.Workers), got)
		}
	})
}
