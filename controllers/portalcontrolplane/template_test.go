// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/workers"
)

// TestTemplateChanged checks that the status of a template, which is written whenever a cluster becomes ready, wakes no control plane.
func TestTemplateChanged(t *testing.T) {
	tests := map[string]struct {
		change func(*infrav1.PortalMachineTemplate)
		wakes  bool
	}{
		"nothing":     {func(*infrav1.PortalMachineTemplate) {}, false},
		"the status":  {func(p *infrav1.PortalMachineTemplate) { p.Status.NodeInfo.Architecture = "amd64" }, false},
		"its owners":  {func(p *infrav1.PortalMachineTemplate) { p.OwnerReferences = []metav1.OwnerReference{{Name: "a"}} }, false},
		"annotations": {func(p *infrav1.PortalMachineTemplate) { p.Annotations = map[string]string{"a": "b"} }, false},
		"the label":   {func(p *infrav1.PortalMachineTemplate) { p.Labels = map[string]string{clusterv1.WatchLabel: "east"} }, true},
		"the spec":    {func(p *infrav1.PortalMachineTemplate) { p.Generation++ }, true},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			before := &infrav1.PortalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
			after := before.DeepCopy()
			test.change(after)
			if got := templateChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.wakes {
				t.Errorf("wakes: %t", got)
			}
		})
	}
	if template := (&infrav1.PortalMachineTemplate{}); !templateChanged.Create(event.CreateEvent{Object: template}) || !templateChanged.Delete(event.DeleteEvent{Object: template}) {
		t.Error("a new or deleted template wakes nothing")
	}
}

// TestFromTemplate checks that a template wakes the control planes whose workers use it, and no others of the namespace.
func TestFromTemplate(t *testing.T) {
	cluster := func(name string) *clusterv1.Cluster {
		c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "PortalControlPlane", Name: name + "-cp"}
		return c
	}
	of := func(cluster, template, kind string) (metav1.ObjectMeta, clusterv1.MachineTemplateSpec) {
		var spec clusterv1.MachineTemplateSpec
		spec.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: kind, Name: template}
		return metav1.ObjectMeta{
			Namespace: "default", Name: cluster, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
		}, spec
	}
	deployment := func(cluster, template, kind string) *clusterv1.MachineDeployment {
		md := &clusterv1.MachineDeployment{}
		md.ObjectMeta, md.Spec.Template = of(cluster, template, kind)
		return md
	}
	set := func(cluster, template, kind string) *clusterv1.MachineSet {
		ms := &clusterv1.MachineSet{}
		ms.ObjectMeta, ms.Spec.Template = of(cluster, template, kind)
		return ms
	}
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(newScheme(t)).
		WithIndex(&clusterv1.MachineDeployment{}, templateIndex, indexTemplate).WithIndex(&clusterv1.MachineSet{}, templateIndex, indexTemplate).
		WithObjects(cluster("a"), cluster("b"), cluster("c"), cluster("d"), deployment("a", "small", workers.TemplateKind), deployment("b", "large", workers.TemplateKind),
			deployment("c", "small", "OtherTemplate"), set("d", "small", workers.TemplateKind)).Build()}
	for template, want := range map[string][]string{"small": {"a-cp", "d-cp"}, "large": {"b-cp"}, "unused": nil} {
		var got []string
		for _, request := range r.fromTemplate(t.Context(), &infrav1.PortalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: template}}) {
			got = append(got, request.Name)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s wakes %v, want %v", template, got, want)
		}
	}
	elsewhere := &infrav1.PortalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "small"}}
	if got := r.fromTemplate(t.Context(), client.Object(elsewhere)); len(got) > 0 {
		t.Errorf("a template of another namespace wakes %v", got)
	}
}
