// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// byKey keeps the text of each event as client-go's recorder does, which counts events that differ only in their text as one.
type byKey map[string]string

func (k byKey) Eventf(_, related runtime.Object, kind, reason, action, note string, args ...any) {
	key := fmt.Sprint(related, kind, reason, action)
	if _, found := k[key]; !found {
		k[key] = fmt.Sprintf(note, args...)
	}
}

// TestDelete: the PortalCluster stays while a control plane of its Cluster needs the identity. Then the Secret is released, and events name the
// network and the VPC that remain.
func TestDelete(t *testing.T) {
	b := newBench(t, &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"})
	b.correct(func(spec *infrav1.PortalClusterSpec) { spec.VPC.Create = ptr.To(true) })
	b.reconcile(5)
	kept := byKey{}
	b.r.Recorder = kept
	labelled := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "labelled", Labels: map[string]string{clusterv1.ClusterNameLabel: "a"},
	}}
	b.must(b.store.Create(t.Context(), labelled))
	controlPlanes := []*infrav1.PortalControlPlane{b.withControlPlane(), labelled}
	b.must(b.store.Delete(t.Context(), b.get()))
	for _, cp := range controlPlanes {
		b.reconcile(2)
		b.says(clusterv1.DeletingCondition, metav1.ConditionTrue, infrav1.WaitingForDependencyReason, "PortalControlPlane "+cp.Name)
		if !controllerutil.ContainsFinalizer(b.secret(), infrav1.IdentityFinalizer) {
			t.Fatal("the Secret is let go while the control plane needs it")
		}
		b.must(b.store.Delete(t.Context(), cp))
	}
	b.change(func(c *infrav1.PortalCluster) { c.Spec.Network = nil }) // refused by the API server today; objects may be older than the rule
	b.reconcile(2)
	b.released()
	if got := fmt.Sprint(kept); !strings.Contains(got, "Network "+b.portal.Networks()[0].ID) || !strings.Contains(got, `VPC "default"`) {
		t.Errorf("events: %s", got)
	}
}

// released fails unless the PortalCluster is gone, and nothing holds the Secret.
func (b *bench) released() {
	b.Helper()
	if err := b.store.Get(b.Context(), key, &infrav1.PortalCluster{}); !apierrors.IsNotFound(err) {
		b.Errorf("the PortalCluster still exists: %v", err)
	}
	if controllerutil.ContainsFinalizer(b.secret(), infrav1.IdentityFinalizer) {
		b.Error("the Secret still has the finalizer")
	}
}

// TestDeleteWithoutKindOfControlPlane deletes the PortalCluster after the CustomResourceDefinition of the PortalControlPlanes, as it may
// happen when the provider is uninstalled. The PortalCluster must not wait for objects of a kind that does not exist.
func TestDeleteWithoutKindOfControlPlane(t *testing.T) {
	b := newBench(t, nil)
	b.reconcile(5)
	live := interceptor.NewClient(b.watching(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*infrav1.PortalControlPlaneList); ok {
				return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{Resource: "portalcontrolplanes"}, "", "", 0, true)
			}
			return c.List(ctx, list, opts...)
		},
	})
	b.r.Live, b.r.Identities.Live = live, live
	b.must(b.store.Delete(t.Context(), b.get()))
	b.reconcile(2)
	b.released()
}

// TestDeleteReportsUnknownNetwork deletes the PortalCluster before it is known whether the portal created its network. A Warning names the
// CIDR, and what to do. There is no warning if the portal has refused, or if a person has named the network.
func TestDeleteReportsUnknownNetwork(t *testing.T) {
	const cidr = "10.1.0.0/24"
	lost := emulator.Fault{Cut: true, After: true}
	for title, test := range map[string]struct {
		fault  emulator.Fault
		change func(*infrav1.PortalCluster)
		warns  int
	}{
		"answer lost": {lost, func(*infrav1.PortalCluster) {}, 1},
		"refused":     {emulator.Fault{Code: emulator.CodeQuotaExceeded}, func(*infrav1.PortalCluster) {}, 0},
		"a person named it": {lost, func(c *infrav1.PortalCluster) {
			c.Spec.Network = &infrav1.PortalNetwork{ID: "net-1"}
		}, 0},
		"the annotation is damaged": {lost, func(c *infrav1.PortalCluster) {
			c.Annotations[infrav1.OperationAnnotation] = "{"
		}, 1},
	} {
		t.Run(title, func(t *testing.T) {
			b := newBench(t, &infrav1.PortalNetwork{CIDR: cidr})
			test.fault.Method, test.fault.Path, test.fault.Count = "POST", "/networks", 1
			b.must(b.portal.Inject(test.fault))
			b.reconcile(10)
			b.events()
			b.must(b.store.Delete(t.Context(), b.change(test.change)))
			b.reconcile(2)
			b.released()
			got := b.events()
			if strings.Count(got, "Warning "+infrav1.EventNetworkMayRemain) != test.warns || test.warns > 0 && !strings.Contains(got, "CIDR "+cidr) {
				t.Errorf("events: %q", got)
			}
		})
	}
}
