// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// apiServer is a workload cluster with a DaemonSet. It answers evictions, and records them.
type apiServer struct {
	client.Client
	answers map[string]error // by Pod; missing: the Pod is evicted
	lists   error            // of every list of Pods
	evicted []string
	grace   []*int64
}

func newAPIServer(t *testing.T, pods ...corev1.Pod) *apiServer {
	t.Helper()
	s := &apiServer{answers: map[string]error{}}
	builder := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agents"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}})
	for _, p := range pods {
		builder = builder.WithObjects(&p)
	}
	byNode := func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }
	s.Client = builder.WithIndex(&corev1.Pod{}, "spec.nodeName", byNode).WithInterceptorFuncs(interceptor.Funcs{List: s.list, SubResourceCreate: s.evict}).Build()
	return s
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	return schemes.Of(t, corev1.AddToScheme, appsv1.AddToScheme, storagev1.AddToScheme, policyv1.AddToScheme, clusterv1.AddToScheme)
}

func (s *apiServer) list(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
	if _, pods := list.(*corev1.PodList); pods && s.lists != nil {
		return s.lists
	}
	return c.List(ctx, list, opts...)
}

func (s *apiServer) evict(ctx context.Context, c client.Client, _ string, pod client.Object, eviction client.Object, _ ...client.SubResourceCreateOption) error {
	s.evicted = append(s.evicted, pod.GetName())
	s.grace = append(s.grace, eviction.(*policyv1.Eviction).DeleteOptions.GracePeriodSeconds)
	if err := s.answers[pod.GetName()]; err != nil {
		return err
	}
	return c.Delete(ctx, pod)
}

// step takes a step on n1, by the rules and with the MachineDrainRules of the management cluster.
func (s *apiServer) step(t *testing.T, rules Rules, of ...client.Object) string {
	t.Helper()
	management := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(of...).Build()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "prod"}}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	return Step(t.Context(), management, s.Client, cluster, n, rules)
}

// held is what the API server answers if a PodDisruptionBudget forbids the eviction.
func held() error {
	return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 10)
}

func pod(name string, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: "n1"}}
	ownedBy("ReplicaSet", "web")(&p)
	for _, f := range change {
		f(&p)
	}
	return p
}

func ownedBy(kind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, Controller: ptr.To(true)}}
	}
}

func many(n int) (all []corev1.Pod) {
	for i := range n {
		all = append(all, pod(fmt.Sprintf("web-%02d", i)))
	}
	return all
}

func terminating(p *corev1.Pod) {
	stays(p)
	p.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(0, 0)))
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

// stays keeps a Pod that is being deleted, as its kubelet does until the Pod has ended.
func stays(p *corev1.Pod) { p.Finalizers = []string{"test/kubelet"} }

// TestStepChooses checks which Pods of a Node are evicted, and which the drain waits for.
func TestStepChooses(t *testing.T) {
	tests := map[string]struct {
		pod            corev1.Pod
		evicted, waits bool
	}{
		"of a ReplicaSet":                  {pod("web"), true, true},
		"of a DaemonSet":                   {pod("agent", ownedBy("DaemonSet", "agents")), false, false},
		"of a DaemonSet that was deleted":  {pod("agent", ownedBy("DaemonSet", "former")), true, true},
		"static":                           {pod("proxy", annotated(corev1.MirrorPodAnnotationKey, "hash")), false, false},
		"not safe to evict, says the user": {pod("db", annotated(safeToEvict, "false")), true, true},
		"terminating":                      {pod("web", terminating), false, true},
		"of another Node":                  {pod("web", func(p *corev1.Pod) { p.Spec.NodeName = "n2" }), false, false},
		"to be skipped, says its label":    {pod("web", labelled(clusterv1.PodDrainLabel, "skip")), false, false},
		"to be waited for, says its label": {pod("job", labelled(clusterv1.PodDrainLabel, "wait-completed")), false, true},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := newAPIServer(t, test.pod)
			waits := s.step(t, Rules{})
			if (waits != "") != test.waits || test.waits && !strings.Contains(waits, test.pod.Namespace+"/"+test.pod.Name) {
				t.Errorf("waits for %q", waits)
			}
			if evicted := len(s.evicted) > 0; evicted != test.evicted {
				t.Errorf("evicted: %t, want %t", evicted, test.evicted)
			}
			if len(s.grace) > 0 && s.grace[0] != nil {
				t.Errorf("the Pod's own grace period is replaced by %d", *s.grace[0])
			}
		})
	}
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{key: value} }
}

// TestStepByRules checks that MachineDrainRules count which select the labels of the Node's last Machine, and no others.
func TestStepByRules(t *testing.T) {
	rule := &clusterv1.MachineDrainRule{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "keep"}}
	rule.Spec.Drain.Behavior = clusterv1.MachineDrainRuleDrainBehaviorSkip
	rule.Spec.Machines = []clusterv1.MachineDrainRuleMachineSelector{{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "b"}}}}
	for pool, evicted := range map[string]bool{"a": true, "b": false} {
		s := newAPIServer(t, pod("web"))
		waits := s.step(t, Rules{Labels: map[string]string{"pool": pool}}, rule)
		if (len(s.evicted) > 0) != evicted || (waits != "") != evicted {
			t.Errorf("held by a Machine of pool %s: evicted %v, waits for %q", pool, s.evicted, waits)
		}
	}
}

// TestStepAnswers checks what a step makes of the API server's answers. An eviction that fails is named with its reason, whatever
// that is, and keeps no other Pod from being evicted.
func TestStepAnswers(t *testing.T) {
	pods, twice := corev1.Resource("pods"), "this pod has more than one PodDisruptionBudget"
	tests := map[string]struct {
		answers map[string]error
		words   []string
	}{
		"all evicted":                {nil, []string{"default/web-00, default/web-01, default/web-02", "deletionTimestamp"}},
		"one is held by a budget":    {map[string]error{"web-01": held()}, []string{"default/web-01: cannot evict pod as it would violate"}},
		"one has two budgets":        {map[string]error{"web-01": apierrors.NewInternalError(errors.New(twice))}, []string{"default/web-01", twice}},
		"a webhook denies one":       {map[string]error{"web-00": apierrors.NewForbidden(pods, "web-00", errors.New("denied"))}, []string{"default/web-00", "denied"}},
		"one is denied, one is held": {map[string]error{"web-00": apierrors.NewForbidden(pods, "web-00", errors.New("denied")), "web-02": held()}, []string{"default/web-02", "default/web-00"}},
		"all are held":               {map[string]error{"web-00": held(), "web-01": held(), "web-02": held()}, []string{"default/web-00, default/web-01, default/web-02"}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			all := many(3)
			for i := range all {
				stays(&all[i])
			}
			s := newAPIServer(t, all...)
			s.answers = test.answers
			waits := s.step(t, Rules{})
			if len(s.evicted) != 3 {
				t.Errorf("an answer for one Pod keeps the others from being tried: %v", s.evicted)
			}
			for _, word := range test.words {
				if !strings.Contains(waits, word) {
					t.Errorf("%q does not contain %q", waits, word)
				}
			}
			if again := s.step(t, Rules{}); strings.Contains(waits, "\n") || len(test.answers) != 1 && waits != again {
				t.Errorf("%q, and a moment later %q", waits, again)
			}
		})
	}
}

// TestStepsDrain takes steps until no Pod is left. A terminating Pod counts until it has ended, and is evicted once.
func TestStepsDrain(t *testing.T) {
	all := many(3)
	stays(&all[0])
	s := newAPIServer(t, all...)
	for i, want := range []string{"default/web-00", "default/web-00", ""} {
		waits := s.step(t, Rules{})
		if (waits == "") != (want == "") || !strings.Contains(waits, want) {
			t.Errorf("step %d waits for %q", i, waits)
		}
		if i == 1 { // its kubelet ends it
			p := &corev1.Pod{}
			if err := s.Get(t.Context(), client.ObjectKeyFromObject(&all[0]), p); err != nil {
				t.Fatal(err)
			}
			p.Finalizers = nil
			if err := s.Update(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(s.evicted) != 3 {
		t.Errorf("evictions of 3 Pods: %v", s.evicted)
	}
}

// TestStepWithoutPods checks that the drain waits if the Pods cannot be listed.
func TestStepWithoutPods(t *testing.T) {
	s := newAPIServer(t, pod("web"))
	s.lists = apierrors.NewServiceUnavailable("it starts")
	if waits := s.step(t, Rules{}); !strings.Contains(waits, "it starts") {
		t.Errorf("the drain waits for %q", waits)
	}
}

// TestEndlessPods checks that a list of Pods without end ends the step, not the manager's memory.
func TestEndlessPods(t *testing.T) {
	pages := 0
	s := newAPIServer(t)
	endless := interceptor.NewClient(s.Client.(client.WithWatch), interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		pages++
		list.SetContinue("more")
		return nil
	}})
	waits := Step(t.Context(), s.Client, endless, &clusterv1.Cluster{}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, Rules{})
	if !strings.Contains(waits, "more than") || pages != maxPages {
		t.Errorf("after %d pages the drain waits for %q", pages, waits)
	}
}

// TestUnreachable checks that the Pods of a Node whose kubelet is lost do not hold up the drain: they can never end.
func TestUnreachable(t *testing.T) {
	s := newAPIServer(t, pod("web", terminating))
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	if waits := Step(t.Context(), s.Client, s.Client, &clusterv1.Cluster{}, n, Rules{}); waits != "" {
		t.Errorf("waits for %q", waits)
	}
}

// TestRules writes the rules of a Machine and reads them again, and reads notes that a user of the workload cluster has changed.
func TestRules(t *testing.T) {
	of := func(annotation string, seconds *int32) Rules {
		return RulesOf(map[string]string{"a": "b"}, map[string]string{annotation: ""}, clusterv1.MachineDeletionSpec{NodeDrainTimeoutSeconds: seconds})
	}
	volumes := RulesOf(nil, nil, clusterv1.MachineDeletionSpec{NodeVolumeDetachTimeoutSeconds: ptr.To[int32](60)})
	for _, rules := range []Rules{
		of("", nil), of("", ptr.To[int32](60)), of(clusterv1.ExcludeNodeDrainingAnnotation, ptr.To[int32](0)),
		of(clusterv1.ExcludeWaitForNodeVolumeDetachAnnotation, nil), volumes,
	} {
		if read, found := Parse(rules.String()); !found || !reflect.DeepEqual(read, rules) {
			t.Errorf("%+v is read as %+v, %t", rules, read, found)
		}
	}
	for _, note := range []string{"", "x", "[]", `{"labels":1}`} {
		if rules, found := Parse(note); found {
			t.Errorf("%q is read as %+v", note, rules)
		}
	}
	minute := of("", ptr.To[int32](60))
	if began := time.Now(); minute.Expired(began) || !minute.Expired(began.Add(-time.Minute)) || of("", nil).Expired(began.Add(-time.Hour)) {
		t.Error("a drain ends at another time than the Machine says")
	}
	if began := time.Now(); volumes.VolumesExpired(began) || !volumes.VolumesExpired(began.Add(-time.Minute)) || volumes.VolumesExpired(time.Time{}) || minute.VolumesExpired(began.Add(-time.Hour)) {
		t.Error("a drain waits for volumes longer or shorter than the Machine says")
	}
}
