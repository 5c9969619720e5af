// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// TestWorked has what the nodes show after a failed job: whether the portal has worked on them, and whether that counts.
func TestWorked(t *testing.T) {
	node := func(name string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid of " + name)}}
		n.Status.NodeInfo.KubeletVersion = "v1.35.6"
		return n
	}
	before := Running{Record: &operation.Record{}, Server: "v1.35.6", Nodes: []corev1.Node{node("a"), node("b"), node("c")}}
	before.Nodes[2].Spec.Unschedulable = true
	cordon := func(r *Running) { r.Nodes[0].Spec.Unschedulable = true }
	now := metav1.Now()
	deleted := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", DeletionTimestamp: &now}}
	deleted.Status.NodeRef.Name = "a"
	scale, upgrade := operation.Scale, operation.Upgrade
	tests := map[string]struct {
		of       operation.Type
		target   string
		change   func(*Running)
		machines []clusterv1.Machine
		worked   bool
		counts   bool
	}{
		"nothing, in an upgrade":       {of: upgrade, target: "v1.36.3", change: func(*Running) {}},
		"nothing, in a scale":          {of: scale, target: "5", change: func(*Running) {}},
		"the API server":               {of: upgrade, target: "v1.36.3", change: func(r *Running) { r.Server = "v1.36.3" }, worked: true, counts: true},
		"a kubelet":                    {of: upgrade, target: "v1.36.3", change: func(r *Running) { r.Nodes[0].Status.NodeInfo.KubeletVersion = "v1.36.3" }, worked: true, counts: true},
		"a new node":                   {of: upgrade, target: "v1.36.3", change: func(r *Running) { r.Nodes[0] = node("d") }, worked: true, counts: true},
		"a cordon":                     {of: upgrade, target: "v1.36.3", change: cordon, worked: true, counts: true},
		"a cordon, by core's drain":    {of: upgrade, target: "v1.36.3", change: cordon, machines: []clusterv1.Machine{deleted}},
		"a cordon, for the scale-down": {of: scale, target: "2", change: func(r *Running) { cordon(r); r.Nodes[0].Annotations = map[string]string{infrav1.DrainedAnnotation: ""} }},
		"a cordon, in a scale-down":    {of: scale, target: "2", change: cordon, worked: true, counts: true},
		"one of two removed":           {of: scale, target: "1", change: func(r *Running) { r.Nodes = r.Nodes[1:] }, worked: true},
		"one of two added":             {of: scale, target: "5", change: func(r *Running) { r.Nodes = append(r.Nodes, node("d")) }},
		"another node instead":         {of: scale, target: "5", change: func(r *Running) { r.Nodes[0] = node("d") }, worked: true, counts: true},
		"fewer instead of more":        {of: scale, target: "5", change: func(r *Running) { r.Nodes = r.Nodes[1:] }, worked: true, counts: true},
	}
	for title, test := range tests {
		op := &operation.Operation{Type: test.of, Target: test.target, From: 3, Before: snapshot(before.Nodes, nil)}
		if test.of == upgrade {
			op.Digest = before.digest()
		}
		after := before
		after.Nodes = slices.Clone(before.Nodes)
		test.change(&after)
		got := worked(op, after, test.machines)
		if counts := workOf(op, after, test.machines) == operation.WorkCostly; got != test.worked || counts != test.counts {
			t.Errorf("%s: the portal has worked on nodes: %t, and that counts: %t", title, got, counts)
		}
	}
}
