// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// nodeWrite is a write that makes Node w what the change makes of it.
func nodeWrite(seen claims.Node, change func(*claims.Node)) claims.Write {
	want := seen
	change(&want)
	return claims.Write{Step: claims.WriteNode, Node: claims.Change[claims.Node]{Seen: seen, Want: want}}
}

// TestWritesOfNodes checks what a write changes on a Node, and whether the plan has to be made again, because the Node is not the
// one of the plan.
func TestWritesOfNodes(t *testing.T) {
	name := nodeWrite(claims.Node{NodeID: claims.NodeID{Name: "w"}}, func(n *claims.Node) { n.ProviderID = "portal:///ours" })
	free := nodeWrite(claims.Node{NodeID: claims.NodeID{Name: "w"}, DrainState: claims.DrainState{Cordoned: true}}, func(n *claims.Node) { n.DrainState = claims.DrainState{} })
	both := nodeWrite(free.Node.Seen, func(n *claims.Node) { n.DrainState, n.ProviderID = claims.DrainState{}, "portal:///ours" })
	theirs := func(n *corev1.Node) { n.Spec.ProviderID = "portal:///theirs" }
	named := func(n *corev1.Node) { n.Spec.ProviderID = "portal:///ours" }
	labelled := func(n *corev1.Node) { n.Labels = map[string]string{"by": "others"} }
	tests := map[string]struct {
		write     claims.Write
		node      func(*corev1.Node) // the Node as it is, or nil if it is gone
		between   func(*corev1.Node) // another client's change between our read and our write
		want      func(*corev1.Node)
		lookAgain bool
	}{
		"named":                  {write: name, node: func(*corev1.Node) {}, want: named},
		"named already":          {write: name, node: named, want: named},
		"named by somebody else": {write: name, node: theirs, want: theirs, lookAgain: true},
		"another name by then":   {write: name, node: func(*corev1.Node) {}, between: theirs, want: theirs, lookAgain: true},
		"changed by then":        {write: name, node: func(*corev1.Node) {}, between: labelled, want: labelled, lookAgain: true},
		"named when it is gone":  {write: name, lookAgain: true},
		"takes Pods again": {write: free, node: func(n *corev1.Node) {
			n.Spec.Unschedulable = true
			n.Spec.Taints = []corev1.Taint{{Key: autoscalerTaint, Effect: corev1.TaintEffectNoSchedule}, {Key: "theirs", Effect: corev1.TaintEffectNoSchedule}}
		}, want: func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "theirs", Effect: corev1.TaintEffectNoSchedule}}
		}},
		"takes Pods again when it is gone":          {write: free},
		"named, and takes Pods again, in one write": {write: both, node: cordon, want: named},
		"neither, if somebody else has named it":    {write: both, node: func(n *corev1.Node) { cordon(n); theirs(n) }, want: func(n *corev1.Node) { cordon(n); theirs(n) }, lookAgain: true},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			workload := newWorkload(t, test.node, test.between)
			key := client.ObjectKey{Namespace: "default", Name: "prod"}
			p := &pass.Pass{Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}}
			_, err := Keeper{}.write(t.Context(), p, workload, Members{}, &test.write)
			if lookAgain := apierrors.IsConflict(err) || apierrors.IsNotFound(err); lookAgain != test.lookAgain || err != nil && !lookAgain {
				t.Errorf("error %v, want to look again: %t", err, test.lookAgain)
			}
			if test.want == nil {
				return
			}
			got, want := &corev1.Node{}, &corev1.Node{}
			if err := workload.Get(t.Context(), client.ObjectKey{Name: "w"}, got); err != nil {
				t.Fatal(err)
			}
			test.want(want)
			if !equality.Semantic.DeepEqual(got.Spec, want.Spec) || !equality.Semantic.DeepEqual(got.Labels, want.Labels) {
				t.Errorf("got %+v %v, want %+v %v", got.Spec, got.Labels, want.Spec, want.Labels)
			}
		})
	}
}

// newWorkload is a workload cluster with Node w, which another client changes after it was read for the first time.
func newWorkload(t *testing.T, node, between func(*corev1.Node)) client.Client {
	t.Helper()
	scheme := schemes.Of(t, corev1.AddToScheme)
	builder := fake.NewClientBuilder().WithScheme(scheme)
	if node != nil {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w"}}
		node(n)
		builder = builder.WithObjects(n)
	}
	return interceptor.NewClient(builder.Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if err := c.Get(ctx, key, obj, opts...); err != nil || between == nil {
				return err
			}
			theirs, _ := obj.DeepCopyObject().(*corev1.Node)
			between(theirs)
			between = nil
			return c.Update(ctx, theirs)
		},
	})
}

// TestApplyToMachine checks what a write leaves of a Machine's annotations, also if an interrupted pass is repeated.
func TestApplyToMachine(t *testing.T) {
	const drain, terminate, first = infrav1.PreDrainHook, infrav1.PreTerminateHook, clusterv1.DeleteMachineAnnotation
	const skip = clusterv1.MachineSkipRemediationAnnotation
	none, both, last := claims.Machine{}, claims.Machine{PreDrain: true, PreTerminate: true}, claims.Machine{PreTerminate: true}
	tests := map[string]struct {
		seen, wanted claims.Machine
		deleting     bool
		before, want []string
	}{
		"hooks":                             {none, both, false, []string{"theirs"}, []string{"theirs", drain, terminate, skip}},
		"hooks, one is missing":             {last, both, false, []string{terminate, skip}, []string{drain, terminate, skip}},
		"no hooks once it is being deleted": {last, both, true, []string{terminate}, []string{terminate}},
		"core drains it":                    {both, last, true, []string{"theirs", drain, terminate, skip}, []string{"theirs", terminate, skip}},
		"remove hooks":                      {both, none, true, []string{"theirs", drain, terminate, skip}, []string{"theirs", skip}},
		"remove hooks, half of it is done":  {both, none, true, []string{terminate}, nil},
		"deleted first":                     {none, claims.Machine{DeleteFirst: true}, false, nil, []string{first}},
		"the user lets it be replaced":      {both, claims.Machine{PreDrain: true, PreTerminate: true, DeleteFirst: true}, false, []string{drain, terminate}, []string{drain, terminate, first}},
		"the user has skipped it before":    {none, both, false, []string{skip + "=debugging"}, []string{drain, terminate, skip}},
		"what does not differ stays":        {none, none, true, []string{drain, first, skip}, []string{drain, first, skip}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			m := &clusterv1.Machine{}
			if test.deleting {
				m.DeletionTimestamp = ptr.To(metav1.Now())
			}
			for _, annotation := range test.before {
				key, value, _ := strings.Cut(annotation, "=")
				metav1.SetMetaDataAnnotation(&m.ObjectMeta, key, value)
			}
			for range 2 {
				applyToMachine(m, test.seen, test.wanted)
			}
			if got := sets.KeySet(m.Annotations); !got.Equal(sets.New(test.want...)) {
				t.Errorf("%v, want %v", sets.List(got), test.want)
			}
		})
	}
}
