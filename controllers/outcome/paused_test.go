// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// TestEnsurePaused checks that only a new object which is not paused is left without a write of its own.
func TestEnsurePaused(t *testing.T) {
	paused := &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{Paused: ptr.To(true)}}
	was := func(status metav1.ConditionStatus) *metav1.Condition {
		return &metav1.Condition{Type: clusterv1.PausedCondition, Status: status, Reason: "Before"}
	}
	for title, test := range map[string]struct {
		cluster         *clusterv1.Cluster
		before          *metav1.Condition
		isPaused, write bool
		want            metav1.ConditionStatus // in the end
	}{
		"new":                 {&clusterv1.Cluster{}, nil, false, false, metav1.ConditionFalse},
		"new, no Cluster":     {nil, nil, false, false, metav1.ConditionFalse},
		"new and paused":      {paused, nil, true, true, metav1.ConditionTrue},
		"paused now":          {paused, was(metav1.ConditionFalse), true, true, metav1.ConditionTrue},
		"not paused any more": {&clusterv1.Cluster{}, was(metav1.ConditionTrue), false, true, metav1.ConditionFalse},
	} {
		t.Run(title, func(t *testing.T) {
			scheme := schemes.Of(t, infrav1.AddToScheme)
			obj := &infrav1.PortalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
			if test.before != nil {
				conditions.Set(obj, *test.before)
			}
			writes := 0
			store := fake.NewClientBuilder().WithScheme(scheme).WithObjects(obj).WithStatusSubresource(obj).WithInterceptorFuncs(interceptor.Funcs{
				SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
					writes++
					return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
				},
			}).Build()
			if err := store.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				t.Fatal(err)
			}
			isPaused, requeue, err := EnsurePaused(t.Context(), store, test.cluster, obj)
			if err != nil || isPaused != test.isPaused || requeue != test.write || writes > 0 != test.write {
				t.Errorf("paused %t, requeue %t, %d writes: %v", isPaused, requeue, writes, err)
			}
			ReportNotPaused(obj)
			if c := conditions.Get(obj, clusterv1.PausedCondition); c == nil || c.Status != test.want {
				t.Errorf("%+v", c)
			}
		})
	}
}
