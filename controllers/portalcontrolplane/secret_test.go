// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/workload"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// quota makes the management cluster refuse every write of a Secret, as a quota or a policy does. The returned function ends that.
func (f *fixture) quota() (end func()) {
	f.Helper()
	inner, _ := f.store.(client.WithWatch)
	full := true
	refused := func(obj client.Object) error {
		if _, ok := obj.(*corev1.Secret); ok && full {
			return apierrors.NewForbidden(corev1.Resource("secrets"), obj.GetName(), errors.New("exceeded quota: secrets"))
		}
		return nil
	}
	f.manager.Access.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if err := refused(obj); err != nil {
				return err
			}
			return c.Create(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := refused(obj); err != nil {
				return err
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	})
	return func() { full = false }
}

// TestRefusedSecret has a quota refuse the kubeconfig Secret: the first one, or a renewed one. A condition has the words of the refusal. The
// provider uses the kubeconfig, so the cluster is available and can be scaled. When the quota allows the Secret, it is stored.
func TestRefusedSecret(t *testing.T) {
	for title, stored := range map[string]bool{"the first one": false, "a renewed one": true} {
		t.Run(title, func(t *testing.T) {
			server := newAPIServer(t, workload.Working)
			now := server.kubeconfig("token: old")
			withFixture(t, &now, func(f *fixture) {
				if stored {
					f.connect()
					now = newAPIServer(t, workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
					server.access.Store(workload.Unauthorized)
				}
				end, fetched := f.quota(), f.fetches()
				for range 5 {
					f.connect()
					time.Sleep(time.Second)
				}
				o := f.connect().outcomes[infrav1.KubeconfigReadyCondition]
				if o.Reason != infrav1.KubeconfigNotSharedReason || !strings.Contains(o.Message, "exceeded quota") || strings.Contains(o.Message, kubeconfigs.Canary) {
					t.Errorf("%+v", o)
				}
				if cp := f.controlPlane(); !conditions.IsTrue(cp, infrav1.AvailableCondition) || !conditions.IsTrue(cp, infrav1.ConnectedCondition) {
					t.Errorf("the provider does not use the kubeconfig: %+v", cp.Status.Conditions)
				}
				if got := f.fetches() - fetched; got > 2 {
					t.Errorf("%d fetches in 6 passes", got)
				}
				end()
				time.Sleep(2 * time.Minute)
				f.connect()
				if s := f.connect(); !s.done(infrav1.KubeconfigReadyCondition) || !f.storedIs(now) {
					t.Errorf("the Secret is not stored when it may be: %+v", s.outcomes)
				}
			})
		})
	}
}

// TestRestartKeepsAvailable starts a manager, for which the API server does not answer yet. For a minute, conditions stay True.
func TestRestartKeepsAvailable(t *testing.T) {
	server := newAPIServer(t, workload.Working)
	now := server.kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &now, func(f *fixture) {
		keeps := func(want outcome.Kind) {
			f.Helper()
			s := f.connect()
			connected, available := conditions.IsTrue(s.ControlPlane, infrav1.ConnectedCondition), conditions.IsTrue(s.ControlPlane, infrav1.AvailableCondition)
			if keeps := want == outcome.Retry; s.blockedByConnection().Kind != want || connected != keeps || available != keeps {
				f.Errorf("connected %t, available %t: %+v", connected, available, s.outcomes[infrav1.ConnectedCondition])
			}
		}
		f.connect()
		f.connect()
		server.access.Store(workload.Unreachable)
		f.restart()
		keeps(outcome.Retry)
		time.Sleep(55 * time.Second)
		keeps(outcome.Retry)
		time.Sleep(5 * time.Second)
		keeps(outcome.Blocked)
	})
}

// TestVolumesInADeletedNamespace deletes the namespace of a Cluster. Its kubeconfig Secret goes first, and cannot be written again. The events
// name the volumes that remain, because the connection is still known.
func TestVolumesInADeletedNamespace(t *testing.T) {
	now := newAPIServer(t, workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &now, func(f *fixture) {
		f.connect()
		f.volume("a", "acme.csi.driver", "volume-1")
		f.must(f.store.Delete(t.Context(), f.secret()))
		f.quota()
		f.leave(departure{owner: "present", noted: "present"})
		got := f.removeBy(access.Way{})
		if len(got) != 2 || !strings.HasSuffix(got[0], "portalctl volumes delete volume-1") {
			t.Errorf("events: %q", got)
		}
	})
}

// TestUserManagedWithoutLabel marks a kubeconfig Secret as user-managed that Cluster API does not find. The provider works with it, and a
// condition has the command.
func TestUserManagedWithoutLabel(t *testing.T) {
	now := newAPIServer(t, workload.Working).kubeconfig("token: theirs")
	withFixture(t, &now, func(f *fixture) {
		f.connect()
		f.edit(mark)
		f.edit(func(s *corev1.Secret) { s.Labels = nil })
		s := f.connect()
		o, command := s.outcomes[infrav1.KubeconfigReadyCondition], "kubectl label secret prod-kubeconfig -n default cluster.x-k8s.io/cluster-name=prod"
		if o.Reason != infrav1.KubeconfigNotSharedReason || !strings.HasSuffix(o.Message, command) || !s.done(infrav1.ConnectedCondition) {
			t.Errorf("%+v", s.outcomes)
		}
		f.edit(func(s *corev1.Secret) { s.Labels = map[string]string{clusterv1.ClusterNameLabel: prod.Name} })
		if s := f.connect(); !s.done(infrav1.KubeconfigReadyCondition) {
			t.Errorf("%+v", s.outcomes)
		}
	})
}

// TestHalfProtected protects only the Cluster against deletion. One Warning and the condition Deleting say what is missing.
func TestHalfProtected(t *testing.T) {
	now := newAPIServer(t, workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &now, func(f *fixture) {
		f.annotations = map[string]string{infrav1.DeletionProtectionAnnotation: "true"}
		f.connect()
		f.connect()
		warnings := slices.DeleteFunc(f.events(), func(e string) bool { return !strings.Contains(e, infrav1.EventProtectionIncomplete) })
		if len(warnings) != 1 || !strings.Contains(warnings[0], "PortalControlPlane prod is not protected against deletion, but Cluster prod is") {
			t.Errorf("%q", warnings)
		}
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Annotations[infrav1.DeletionProtectionAnnotation] = "true" })
		f.connect()
		if got := conditions.GetMessage(f.controlPlane(), clusterv1.DeletingCondition); got != "" {
			t.Errorf("both are protected: %s", got)
		}
	})
}
