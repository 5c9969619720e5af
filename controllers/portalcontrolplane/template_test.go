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
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
)

// TestTemplateChanged checks that the status of a template, which is written whenever a cluster becomes ready, wakes no control plane.
func TestTemplateChanged(t *testing.T) {
	for title, test := range map[string]struct {
		change func(*infrav1.PortalMachineTemplate)
		wakes  bool
	}{
		"the status": {func(p *infrav1.PortalMachineTemplate) { p.Status.NodeInfo.Architecture = "amd64" }, false},
		"the label":  {func(p *infrav1.PortalMachineTemplate) { p.Labels = map[string]string{clusterv1.WatchLabel: "east"} }, true},
		"the spec":   {func(p *infrav1.PortalMachineTemplate) { p.Generation++ }, true},
	} {
		before := &infrav1.PortalMachineTemplate{}
		after := before.DeepCopy()
		test.change(after)
		if got := templateChanged.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != test.wakes {
			t.Errorf("%s: wakes %t", title, got)
		}
	}
}

// TestFromTemplate checks that a template wakes the control planes whose workers use it, and no others of the namespace.
func TestFromTemplate(t *testing.T) {
	objects := fake.NewClientBuilder().WithScheme(newScheme(t)).
		WithIndex(&clusterv1.MachineDeployment{}, templateIndex, indexTemplate).WithIndex(&clusterv1.MachineSet{}, templateIndex, indexTemplate)
	for name, use := range map[string]struct{ kind, template string }{
		"a": {workers.TemplateKind, "small"}, "b": {workers.TemplateKind, "large"}, "c": {"OtherTemplate", "small"}, "d": {workers.TemplateKind, "small"},
	} {
		meta := metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: name}}
		cluster := &clusterv1.Cluster{ObjectMeta: meta}
		cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "PortalControlPlane", Name: name + "-cp"}
		var spec clusterv1.MachineTemplateSpec
		spec.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: use.kind, Name: use.template}
		user := client.Object(&clusterv1.MachineDeployment{ObjectMeta: meta, Spec: clusterv1.MachineDeploymentSpec{Template: spec}})
		if name == "d" {
			user = &clusterv1.MachineSet{ObjectMeta: meta, Spec: clusterv1.MachineSetSpec{Template: spec}}
		}
		objects = objects.WithObjects(cluster, user)
	}
	r := &Reconciler{Client: objects.Build()}
	for template, want := range map[client.ObjectKey][]string{
		{Namespace: "default", Name: "small"}: {"a-cp", "d-cp"}, {Namespace: "default", Name: "large"}: {"b-cp"}, {Namespace: "elsewhere", Name: "small"}: nil,
	} {
		var got []string
		of := &infrav1.PortalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: template.Namespace, Name: template.Name}}
		for _, request := range r.fromTemplate(t.Context(), of) {
			got = append(got, request.Name)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s wakes %v, want %v", template, got, want)
		}
	}
}
