// SPDX-License-Identifier: Apache-2.0

package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// apiServer is a workload cluster with a DaemonSet. It answers evictions, and records them.
type apiServer struct {
	*fake.Clientset
	pods    []corev1.Pod
	answers map[string]error // by Pod; missing: the Pod is evicted
	evicted []string
	grace   []*int64
}

func newAPIServer(pods ...corev1.Pod) *apiServer {
	s := &apiServer{pods: pods, answers: map[string]error{}}
	s.Clientset = fake.NewClientset(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agents"}})
	s.PrependReactor("list", "pods", s.list)
	s.PrependReactor("create", "pods/eviction", s.evict)
	return s
}

// list returns the Pods that the field selector names, which the fake clientset does not look at.
func (s *apiServer) list(action k8stesting.Action) (bool, runtime.Object, error) {
	list, selector := &corev1.PodList{}, action.(k8stesting.ListAction).GetListRestrictions().Fields
	for _, p := range s.pods {
		if selector.Matches(fields.Set{"spec.nodeName": p.Spec.NodeName}) {
			list.Items = append(list.Items, p)
		}
	}
	return true, list, nil
}

func (s *apiServer) evict(action k8stesting.Action) (bool, runtime.Object, error) {
	eviction := action.(k8stesting.CreateAction).GetObject().(*policyv1.Eviction)
	s.evicted = append(s.evicted, eviction.Name)
	s.grace = append(s.grace, eviction.DeleteOptions.GracePeriodSeconds)
	if err := s.answers[eviction.Name]; err != nil {
		return true, nil, err
	}
	for i := range s.pods {
		if s.pods[i].Name == eviction.Name {
			s.pods[i].DeletionTimestamp = ptr.To(metav1.Now())
		}
	}
	return true, nil, nil
}

// end removes the terminating Pods.
func (s *apiServer) end() {
	s.pods = slices.DeleteFunc(s.pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
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

func terminating(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(0, 0))) }

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

// TestStepChooses checks which Pods of a Node are evicted, and which count as left.
func TestStepChooses(t *testing.T) {
	tests := map[string]struct {
		pod     corev1.Pod
		evicted bool
		left    int
	}{
		"of a ReplicaSet":                   {pod("web"), true, 1},
		"of no controller":                  {pod("bare", func(p *corev1.Pod) { p.OwnerReferences = nil }), true, 1},
		"of a DaemonSet":                    {pod("agent", ownedBy("DaemonSet", "agents")), false, 0},
		"of a DaemonSet that was deleted":   {pod("agent", ownedBy("DaemonSet", "former")), true, 1},
		"static":                            {pod("proxy", annotated(corev1.MirrorPodAnnotationKey, "hash")), false, 0},
		"with an emptyDir":                  {pod("cache", withEmptyDir), true, 1},
		"that has finished":                 {pod("job", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), true, 1},
		"not safe to evict, says the user":  {pod("db", annotated(SafeToEvict, "false")), true, 1},
		"terminating":                       {pod("web", terminating), false, 1},
		"terminating, of a DaemonSet":       {pod("agent", terminating, ownedBy("DaemonSet", "agents")), false, 0},
		"of another Node":                   {pod("web", func(p *corev1.Pod) { p.Spec.NodeName = "n2" }), false, 0},
		"of another namespace, on the Node": {pod("dns", func(p *corev1.Pod) { p.Namespace = "kube-system" }), true, 1},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := newAPIServer(test.pod)
			progress, err := step(t.Context(), s, "n1")
			if err != nil || progress.Left != test.left || len(progress.Blocked) > 0 {
				t.Errorf("%+v, %v; want %d left", progress, err, test.left)
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

func withEmptyDir(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

// TestStepAnswers checks what a step makes of the API server's answers.
func TestStepAnswers(t *testing.T) {
	pods := corev1.Resource("pods")
	tests := map[string]struct {
		answers map[string]error
		left    int
		blocked []string
		fails   string // the Pod that the error names
	}{
		"all evicted":             {nil, 3, nil, ""},
		"one is held":             {map[string]error{"web-01": held()}, 3, []string{"default/web-01"}, ""},
		"one has just ended":      {map[string]error{"web-00": apierrors.NewNotFound(pods, "web-00")}, 2, nil, ""},
		"one fails":               {map[string]error{"web-00": apierrors.NewInternalError(errors.New("no quorum"))}, 3, nil, "default/web-00"},
		"one fails, one is held":  {map[string]error{"web-00": apierrors.NewForbidden(pods, "web-00", nil), "web-02": held()}, 3, []string{"default/web-02"}, "default/web-00"},
		"two have just ended":     {map[string]error{"web-00": apierrors.NewNotFound(pods, ""), "web-02": apierrors.NewNotFound(pods, "")}, 1, nil, ""},
		"all are held":            {map[string]error{"web-00": held(), "web-01": held(), "web-02": held()}, 3, []string{"default/web-00", "default/web-01", "default/web-02"}, ""},
		"held, and another ended": {map[string]error{"web-00": held(), "web-01": apierrors.NewNotFound(pods, "")}, 2, []string{"default/web-00"}, ""},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := newAPIServer(many(3)...)
			s.answers = test.answers
			progress, err := step(t.Context(), s, "n1")
			if progress.Left != test.left || !slices.Equal(progress.Blocked, test.blocked) {
				t.Errorf("%+v, want %d left and %v", progress, test.left, test.blocked)
			}
			if (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("error %v, want one of Pod %q", err, test.fails)
			}
			if len(s.evicted) != 3 {
				t.Errorf("the answer for one Pod keeps the others from being tried: %v", s.evicted)
			}
		})
	}
}

// TestStepIsShort checks that a step evicts ten Pods and tries fifty at most.
func TestStepIsShort(t *testing.T) {
	tests := map[string]struct {
		pods, held           int // the first ones are held
		tried, left, blocked int
	}{
		"ten":                     {10, 0, 10, 10, 0},
		"more than ten":           {25, 0, 10, 25, 0},
		"fifty that are held":     {50, 50, 50, 50, 50},
		"sixty that are held":     {60, 60, 50, 60, 50},
		"held ones come first":    {60, 30, 40, 60, 30},
		"nearly all that is free": {60, 45, 50, 60, 45},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := newAPIServer(many(test.pods)...)
			for i := range test.held {
				s.answers[s.pods[i].Name] = held()
			}
			progress, err := step(t.Context(), s, "n1")
			if err != nil || progress.Left != test.left || len(progress.Blocked) != test.blocked {
				t.Errorf("%d left, %d blocked, %v", progress.Left, len(progress.Blocked), err)
			}
			if len(s.evicted) != test.tried {
				t.Errorf("tried %d, want %d", len(s.evicted), test.tried)
			}
		})
	}
}

// TestStepsDrain takes steps until no Pod is left. A terminating Pod counts as left until it has ended, and is evicted once.
func TestStepsDrain(t *testing.T) {
	s := newAPIServer(many(25)...)
	var left []int
	for range 6 {
		progress, err := step(t.Context(), s, "n1")
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, progress.Left)
		if len(left)%2 == 0 {
			s.end()
		}
	}
	if want := []int{25, 25, 5, 5, 0, 0}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
	slices.Sort(s.evicted)
	if once := slices.Compact(slices.Clone(s.evicted)); len(s.evicted) != 25 || len(once) != 25 {
		t.Errorf("%d evictions of %d Pods", len(s.evicted), len(once))
	}
}

// TestStepWithoutPods checks that a failed list is an error. Without it the Node would count as drained.
func TestStepWithoutPods(t *testing.T) {
	s := newAPIServer(pod("web"))
	s.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("it starts")
	})
	if _, err := step(t.Context(), s, "n1"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("Pods that cannot be listed: %v", err)
	}
	s = newAPIServer(pod("agent", ownedBy("DaemonSet", "agents")))
	s.PrependReactor("get", "daemonsets", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewServiceUnavailable("it starts")
	})
	if _, err := step(t.Context(), s, "n1"); err == nil || len(s.evicted) > 0 {
		t.Errorf("a DaemonSet that cannot be read: %v, evicted %v", err, s.evicted)
	}
}

// TestStepWithoutConnection checks that a cluster which cannot be reached is an error, and which cluster is asked for.
func TestStepWithoutConnection(t *testing.T) {
	away, key := errors.New("not connected"), client.ObjectKey{Namespace: "default", Name: "prod"}
	drainer := Drainer{Config: func(_ context.Context, cluster client.ObjectKey) (*rest.Config, error) {
		if cluster != key {
			t.Errorf("asks for %s", cluster)
		}
		return nil, away
	}}
	if _, err := drainer.Step(t.Context(), key, "n1"); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
}

// TestProgress checks what people read of a drain: a stable text that names a few of the Pods that hold it.
func TestProgress(t *testing.T) {
	tests := map[string]struct {
		progress     Progress
		words, never []string
	}{
		"none is held":  {Progress{Left: 4}, []string{"4 Pods"}, []string{"PodDisruptionBudget"}},
		"some are held": {Progress{Left: 4, Blocked: []string{"b/y", "a/x"}}, []string{"4 Pods", "PodDisruptionBudget", "a/x, b/y"}, nil},
		"many are held": {Progress{Left: 9, Blocked: []string{"e", "d", "c", "b", "a"}}, []string{"a, b, c"}, []string{"c, d", " e"}},
	}
	for title, test := range tests {
		text := test.progress.String()
		for _, word := range test.words {
			if !strings.Contains(text, word) {
				t.Errorf("%s: %q does not contain %q", title, text, word)
			}
		}
		for _, word := range test.never {
			if strings.Contains(text, word) {
				t.Errorf("%s: %q contains %q", title, text, word)
			}
		}
	}
	if blocked := []string{"b", "a"}; (Progress{Blocked: blocked}).String() == "" || blocked[0] != "b" {
		t.Error("String sorts the caller's list")
	}
}

// TestPinned checks which Pods keep the cluster autoscaler from removing their Node.
func TestPinned(t *testing.T) {
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = phase } }
	unsafe := annotated(SafeToEvict, "false")
	tests := map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"no annotation":        {pod("web", phase(corev1.PodRunning)), false},
		"running":              {pod("db", unsafe, phase(corev1.PodRunning)), true},
		"pending, on its Node": {pod("db", unsafe, phase(corev1.PodPending)), true},
		"succeeded":            {pod("job", unsafe, phase(corev1.PodSucceeded)), false},
		"failed":               {pod("job", unsafe, phase(corev1.PodFailed)), false},
		"safe":                 {pod("web", annotated(SafeToEvict, "true"), phase(corev1.PodRunning)), false},
		"another value":        {pod("web", annotated(SafeToEvict, ""), phase(corev1.PodRunning)), false},
	}
	for title, test := range tests {
		if got := Pinned(&test.pod); got != test.want {
			t.Errorf("%s: %t, want %t", title, got, test.want)
		}
	}
}
