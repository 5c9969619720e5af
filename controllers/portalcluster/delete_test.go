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

// TestDelete: the PortalCluster stays while the control plane needs the identity. Then the Secret is released, and an event names
// the network that remains.
func TestDelete(t *testing.T) {
	b := newBench(t, &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"})
	b.reconcile(5)
	cp := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "cp", Labels: map[string]string{clusterv1.ClusterNameLabel: "a"},
	}}
	b.must(b.store.Create(t.Context(), cp))
	b.must(b.store.Delete(t.Context(), b.get()))
	b.reconcile(2)
	b.says(clusterv1.DeletingCondition, metav1.ConditionTrue, infrav1.WaitingForDependencyReason, "PortalControlPlane cp")
	if !controllerutil.ContainsFinalizer(b.secret(), infrav1.IdentityFinalizer) {
		t.Fatal("the Secret is let go while the control plane needs it")
	}
	b.events()
	c := b.change(func(c *infrav1.PortalCluster) { c.Spec.Network = nil }) // refused by the API server today; objects may be older than the rule
	b.must(b.store.Delete(t.Context(), cp))
	b.reconcile(2)
	if err := b.store.Get(t.Context(), key, c); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the PortalCluster is still there: %v", err)
	}
	if controllerutil.ContainsFinalizer(b.secret(), infrav1.IdentityFinalizer) {
		t.Error("the Secret is still held")
	}
	if got := b.events(); strings.Count(got, infrav1.EventNetworkRemains) != 1 {
		t.Errorf("events: %s", got)
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
	if err := b.store.Get(t.Context(), key, &infrav1.PortalCluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("the PortalCluster still exists: %v", err)
	}
	if controllerutil.ContainsFinalizer(b.secret(), infrav1.IdentityFinalizer) {
		t.Error("the Secret still has the finalizer")
	}
}

// TestDeleteReportsUnknownNetwork deletes the PortalCluster before it is known whether the portal created its network. A Warning names the
// CIDR, and what to do. There is no warning if the portal was never asked, or if a person has named the network.
func TestDeleteReportsUnknownNetwork(t *testing.T) {
	const cidr = "10.1.0.0/24"
	tests := map[string]struct {
		fault  emulator.Fault
		passes int
		change func(*infrav1.PortalCluster)
		warns  int
	}{
		"answer lost":               {fault: emulator.Fault{Cut: true, After: true}, passes: 10, warns: 1},
		"answer lost, nothing done": {fault: emulator.Fault{Cut: true}, passes: 10, warns: 1},
		"never asked":               {fault: emulator.Fault{Cut: true}, passes: 0},
		"refused":                   {fault: emulator.Fault{Code: emulator.CodeQuotaExceeded}, passes: 10},
		"a person named it": {fault: emulator.Fault{Cut: true, After: true}, passes: 10, change: func(c *infrav1.PortalCluster) {
			c.Spec.Network = &infrav1.PortalNetwork{ID: "net-1"}
		}},
		"the annotation is damaged": {fault: emulator.Fault{Cut: true, After: true}, passes: 10, warns: 1, change: func(c *infrav1.PortalCluster) {
			c.Annotations[infrav1.OperationAnnotation] = "{"
		}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			b := newBench(t, &infrav1.PortalNetwork{CIDR: cidr})
			test.fault.Method, test.fault.Path, test.fault.Count = "POST", "/networks", 1
			b.must(b.portal.Inject(test.fault))
			b.reconcile(test.passes)
			b.events()
			c := b.change(func(c *infrav1.PortalCluster) {
				if test.change != nil {
					test.change(c)
				}
			})
			b.must(b.store.Delete(t.Context(), c))
			b.reconcile(2)
			if err := b.store.Get(t.Context(), key, c); !apierrors.IsNotFound(err) {
				t.Errorf("the PortalCluster still exists: %v", err)
			}
			got := b.events()
			if strings.Count(got, "Warning "+infrav1.EventNetworkMayRemain) != test.warns || test.warns > 0 && !strings.Contains(got, "CIDR "+cidr) {
				t.Errorf("events: %q", got)
			}
		})
	}
}

// TestReplacedObjectKeepsItsNetwork has a user replace the object by the manifest that created it: without annotations and finalizers.
func TestReplacedObjectKeepsItsNetwork(t *testing.T) {
	b := newBench(t, &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"})
	b.reconcile(5)
	id := b.get().Status.NetworkID
	b.change(func(c *infrav1.PortalCluster) { c.Annotations, c.Finalizers = nil, nil })
	b.reconcile(5)
	if n := b.calls("POST", "/networks"); n != 1 {
		t.Errorf("%d requests for one network", n)
	}
	if c := b.get(); c.Annotations[infrav1.NetworkAnnotation] != id || c.Status.NetworkID != id || id == "" {
		t.Errorf("the network was %q, the annotation is %q, and status has %q", id, c.Annotations[infrav1.NetworkAnnotation], c.Status.NetworkID)
	}
}

// byKey keeps the text of each event as client-go's recorder does, which counts events that differ only in their text as one.
type byKey map[string]string

func (k byKey) Eventf(_, related runtime.Object, kind, reason, action, note string, args ...any) {
	key := fmt.Sprint(related, kind, reason, action)
	if _, found := k[key]; !found {
		k[key] = fmt.Sprintf(note, args...)
	}
}

// TestDeleteNamesNetworkAndVPC deletes a PortalCluster for which a network was created, and a VPC may have been. The events name both.
func TestDeleteNamesNetworkAndVPC(t *testing.T) {
	b := newBench(t, &infrav1.PortalNetwork{CIDR: "10.1.0.0/24"})
	b.correct(func(spec *infrav1.PortalClusterSpec) { spec.VPC.Create = ptr.To(true) })
	b.reconcile(5)
	kept := byKey{}
	b.r.Recorder = kept
	b.must(b.store.Delete(t.Context(), b.get()))
	b.reconcile(1)
	if got := fmt.Sprint(kept); !strings.Contains(got, "Network "+b.portal.Networks()[0].ID) || !strings.Contains(got, `VPC "default"`) {
		t.Errorf("events: %s", got)
	}
}
