// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// TestCollectedDeploymentsKeepTheirWorkers deletes MachineDeployments, one after the other. If the garbage collector does, or someone does
// although the Cluster is protected, or who deletes the namespace, the portal is never asked for fewer workers, and no node is drained, neither
// in between nor when all are gone. If a person replaces them in the meantime, it is not asked for more workers either.
func TestCollectedDeploymentsKeepTheirWorkers(t *testing.T) {
	for title, test := range map[string]struct {
		owner     types.UID
		replaced  bool
		protected bool
		ending    bool          // the namespace is being deleted
		apart     time.Duration // between the deletions
		kind      outcome.Kind
		holds     string // the reason, or "" if the portal is asked
	}{
		"collector":                             {owner: "earlier", kind: outcome.Stalled, holds: infrav1.DeletionNotConfirmedReason},
		"collector, and a person replaces them": {owner: "earlier", replaced: true, kind: outcome.Stalled, holds: infrav1.DeletionNotConfirmedReason},
		"of a protected Cluster":                {protected: true, kind: outcome.Wait, holds: infrav1.WaitingForObjectReason},
		"of a protected Cluster, minutes apart": {protected: true, apart: 2 * time.Minute, kind: outcome.Wait, holds: infrav1.WaitingForObjectReason},
		"with the namespace, which ends later":  {ending: true, kind: outcome.Blocked, holds: infrav1.DeletingReason},
		"with the namespace, minutes apart":     {ending: true, apart: 2 * time.Minute, kind: outcome.Blocked, holds: infrav1.DeletingReason},
		"a person":                              {},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 4, emulator.Durations{})
				f.change(func(cp *infrav1.PortalControlPlane) {
					putRecord(cp, operation.Record{Size: 4, Version: before, Workers: &infrav1.WorkerParameters{}})
				})
				md := f.editDeployment(func(md *clusterv1.MachineDeployment) {
					md.Spec.Replicas, md.OwnerReferences, md.Finalizers = ptr.To[int32](1), owner(test.owner), []string{"a/b"}
				})
				second := md.DeepCopy()
				second.Name, second.ResourceVersion, second.Spec.Replicas = "second", "", ptr.To[int32](3)
				if err := f.store.Create(t.Context(), second); err != nil {
					t.Fatal(err)
				}
				deleted := []client.Object{second, md}
				if test.protected {
					f.annotations = map[string]string{infrav1.DeletionProtectionAnnotation: "true"}
				}
				if test.ending {
					f.endNamespace()
				}
				for _, gone := range deleted {
					if err := f.store.Delete(t.Context(), gone); err != nil {
						t.Fatal(err)
					}
					f.live(test.apart)
				}
				if test.replaced {
					third := md.DeepCopy()
					third.Name, third.ResourceVersion, third.Spec.Replicas, third.OwnerReferences = "third", "", ptr.To[int32](4), nil
					if err := f.store.Create(t.Context(), third); err != nil {
						t.Fatal(err)
					}
				}
				f.live(5 * time.Minute)
				s := f.pass()
				if o := s.outcomes[infrav1.WorkersReadyCondition]; test.holds != "" && (o.Kind != test.kind || o.Reason != test.holds) {
					t.Errorf("%+v", o)
				}
				if names, _ := f.cordoned(); test.holds != "" && len(names) > 0 {
					t.Errorf("drained: %v", names)
				}
				for _, gone := range []*clusterv1.MachineDeployment{second, md} {
					if err := f.store.Get(t.Context(), client.ObjectKeyFromObject(gone), gone); err != nil {
						t.Fatal(err)
					}
					gone.Finalizers = nil
					if err := f.store.Update(t.Context(), gone); err != nil {
						t.Fatal(err)
					}
					f.live(5 * time.Minute)
				}
				if asked := len(f.answers("scale")) > 0; asked == (test.holds != "") {
					t.Errorf("the portal was asked to scale: %v", f.answers("scale"))
				}
			})
		})
	}
}

// endNamespace deletes the namespace of the Cluster. It is gone when its last object is.
func (f *fixture) endNamespace() {
	f.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: prod.Namespace, Finalizers: []string{"test/objects"}}}
	if err := f.store.Create(f.Context(), namespace); err != nil {
		f.Fatal(err)
	}
	if err := f.store.Delete(f.Context(), namespace); err != nil {
		f.Fatal(err)
	}
}

// live runs passes for some time.
func (f *fixture) live(span time.Duration) {
	f.Helper()
	f.passes(span, 4*time.Second)
}
