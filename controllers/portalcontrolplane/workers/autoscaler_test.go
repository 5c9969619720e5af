// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// TestMayLose checks which MachineDeployments the cluster autoscaler may scale, and of which it may remove a worker now. It keeps their minimum.
func TestMayLose(t *testing.T) {
	for title, test := range map[string]struct {
		least    string
		replicas *int32
		want     bool
	}{
		"above its minimum":         {"1", ptr.To[int32](2), true},
		"at its minimum":            {"2", ptr.To[int32](2), false},
		"below it":                  {"2", ptr.To[int32](1), false},
		"at zero":                   {"0", ptr.To[int32](0), false},
		"without a number yet":      {"1", nil, false},
		"a minimum that is unclear": {"one", ptr.To[int32](1), true},
	} {
		both := map[string]string{clusterv1.AutoscalerMinSizeAnnotation: test.least, clusterv1.AutoscalerMaxSizeAnnotation: "5"}
		md := &clusterv1.MachineDeployment{Spec: clusterv1.MachineDeploymentSpec{Replicas: test.replicas}}
		md.Annotations = both
		if got := mayLose(md, md.Spec.Replicas); got != test.want || !autoscaled(md) {
			t.Errorf("%s: %t", title, got)
		}
		for missing := range both {
			md.Annotations = maps.Clone(both)
			if delete(md.Annotations, missing); mayLose(md, md.Spec.Replicas) || autoscaled(md) {
				t.Errorf("%s, and autoscaled without %s", title, missing)
			}
		}
	}
}

// TestPoolMayLose checks that the Pods are looked at while the autoscaler may remove a node of the pool, and that it is the user who says so.
func TestPoolMayLose(t *testing.T) {
	for removes, want := range map[string]bool{"": false, "false": false, "true": true} {
		p := aPool()
		p.machinePool.Annotations = map[string]string{clusterv1.AutoscalerMinSizeAnnotation: "1", clusterv1.AutoscalerMaxSizeAnnotation: "5"}
		if removes != "" {
			p.machinePool.Annotations[infrav1.AutoscalerRemovesNodesAnnotation] = removes
		}
		for replicas, above := range map[int32]bool{1: false, 2: true} {
			p.machinePool.Spec.Replicas = &replicas
			if d := DesiredBy(&clusterv1.Cluster{}, Members{pool: p}, operation.Record{}); d.mayLose != (want && above) || !d.autoscaled {
				t.Errorf("annotation %q, %d replicas: %t", removes, replicas, d.mayLose)
			}
		}
	}
}

// TestCapacityOfEachTemplate: the cluster autoscaler learns the capacity of each MachineDeployment that has its template, although
// the template of another one is missing.
func TestCapacityOfEachTemplate(t *testing.T) {
	names, template := []string{"a-missing", "b", "c-missing", "d"}, &infrav1.PortalMachineTemplate{}
	store := fake.NewClientBuilder().WithScheme(newScheme(t)).WithStatusSubresource(template).Build()
	for _, name := range []string{"b", "d"} {
		if err := store.Create(t.Context(), &infrav1.PortalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: prod.Namespace, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	s := passed(func(s *scene) {
		n := nodeWith()
		n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		s.Cluster.Namespace, s.nodes.Workers, s.desired.Templates = prod.Namespace, []corev1.Node{*n}, names
	})
	if err := (Keeper{Client: store}).recordCapacity(t.Context(), s.Cluster, &s.decision); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "d"} {
		if err := store.Get(t.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: name}, template); err != nil {
			t.Fatal(err)
		}
		if template.Status.Capacity.Cpu().Value() != 4 {
			t.Errorf("template %s: %+v", name, template.Status)
		}
	}
}

// pods is a workload cluster that hands out its Pods, or their metadata, and counts how often their metadata is asked for.
type pods struct {
	client.Client
	all   []corev1.Pod
	err   error
	looks int
}

func newPods(t *testing.T) *pods {
	t.Helper()
	p := &pods{}
	p.Client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(newScheme(t)).Build(), interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			switch list := list.(type) {
			case *corev1.PodList:
				list.Items = p.all
			case *metav1.PartialObjectMetadataList:
				p.looks++
				for _, pod := range p.all {
					list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta})
				}
			}
			return p.err
		},
	})
	return p
}

// run puts a Pod on each of the Nodes. An exclamation mark means that the user forbids its eviction.
func (p *pods) run(nodes ...string) {
	p.all = nil
	for i, node := range nodes {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i)}, Spec: corev1.PodSpec{NodeName: node}}
		if last := len(node) - 1; node[last] == '!' {
			pod.Spec.NodeName = node[:last]
			pod.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
		}
		p.all = append(p.all, pod)
	}
}

// TestPinnedNodes checks that the Pods of an autoscaled cluster are read again after pinsAge, and not before, for each cluster.
func TestPinnedNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		workload, known, desired := newPods(t), &Memory{}, Desired{autoscaled: true, mayLose: true}
		look := func(moment string, looks int, want map[string]bool) {
			t.Helper()
			got := known.lookAtPods(t.Context(), workload, desired)
			if diff := cmp.Diff(want, got.nodes); diff != "" || workload.looks != looks || got.problem != "" {
				t.Errorf("%s: %d looks, want %d; %s; %s", moment, workload.looks, looks, diff, got.problem)
			}
		}
		workload.run("n1", "n1!", "n2", "n3!")
		look("first", 1, map[string]bool{"n1": true, "n3": true})
		workload.run("n1", "n2!")
		time.Sleep(pinsAge - time.Second)
		look("soon", 1, map[string]bool{"n1": true, "n3": true})
		time.Sleep(time.Second)
		look("later", 2, map[string]bool{"n2": true})
		workload.run("n1", "n2")
		time.Sleep(pinsAge)
		look("none left", 3, map[string]bool{})
		look("that there are none is known", 3, map[string]bool{})
		first := known
		known = &Memory{}
		look("another cluster", 4, map[string]bool{})
		known = first
		desired.autoscaled = false
		look("not autoscaled any more", 4, nil)
		workload.run("n1!")
		desired.autoscaled = true
		look("autoscaled again", 5, map[string]bool{"n1": true})
		workers := []corev1.Node{*nodeWith(), *nodeWith(func(n *corev1.Node) { n.Name = "other" })}
		for i, problem := range []string{"no quorum", "no quorum, again"} { // the condition keeps the first text
			workload.err = errors.New(problem)
			time.Sleep(pinsAge)
			got := known.lookAtPods(t.Context(), workload, desired)
			if diff := cmp.Diff(map[string]bool{"w": true, "other": true}, got.on(workers)); diff != "" || got.problem != "no quorum" || workload.looks != 6+i {
				t.Errorf("a failed read: %q after %d looks: %s", got.problem, workload.looks, diff)
			}
		}
		time.Sleep(pinsAge)
		workload.err = nil
		look("after it", 8, map[string]bool{"n1": true})
		desired.mayLose = false
		workload.run("n2!")
		time.Sleep(time.Hour)
		look("the autoscaler can remove no node", 8, map[string]bool{"n1": true})
		desired.mayLose = true
		look("it can again", 9, map[string]bool{"n2": true})
	})
}
