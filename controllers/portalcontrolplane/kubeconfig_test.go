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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// quota makes the management cluster refuse every write of the kubeconfig Secret, as a quota or a policy does. The returned function ends that.
func (f *fixture) quota() (end func()) {
	full := apierrors.NewForbidden(corev1.Resource("secrets"), "prod-kubeconfig", errors.New("exceeded quota: secrets"))
	f.manager.Access.Client = interceptor.NewClient(f.store, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return full },
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return full
		},
	})
	return func() { f.manager.Access.Client = f.store }
}

// TestRefusedSecret has a quota refuse the kubeconfig Secret: the first one, or a renewed one. A condition has the words of the refusal. The
// provider uses the kubeconfig, so the cluster is available and can be scaled. When the quota allows the Secret, it is stored.
func TestRefusedSecret(t *testing.T) {
	for title, stored := range map[string]bool{"the first one": false, "a renewed one": true} {
		t.Run(title, func(t *testing.T) {
			server := newAPIServer(workload.Working)
			now := server.kubeconfig("token: old")
			withFixture(t, &now, func(f *fixture) {
				if stored {
					f.connect()
					now = newAPIServer(workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
					server.access = workload.Unauthorized
				}
				end, fetched := f.quota(), f.fetches()
				f.liveBy(f.connect, time.Minute)
				o := f.connect().outcomes[infrav1.KubeconfigReadyCondition]
				if !says(o, infrav1.KubeconfigNotSharedReason, "exceeded quota") || strings.Contains(o.Message, kubeconfigs.Canary) {
					t.Errorf("%+v", o)
				}
				if cp := f.controlPlane(); !conditions.IsTrue(cp, infrav1.AvailableCondition) || !conditions.IsTrue(cp, infrav1.ConnectedCondition) {
					t.Errorf("the provider does not use the kubeconfig: %+v", cp.Status.Conditions)
				}
				if got := f.fetches() - fetched; got > 3 {
					t.Errorf("%d fetches in a minute", got)
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

// TestUserManagedWithoutLabel marks a kubeconfig Secret as user-managed that Cluster API does not find. The provider works with it, and a
// condition has the command.
func TestUserManagedWithoutLabel(t *testing.T) {
	now := newAPIServer(workload.Working).kubeconfig("token: theirs")
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

// secret is the kubeconfig Secret.
func (f *fixture) secret() *corev1.Secret {
	f.Helper()
	s := &corev1.Secret{}
	f.must(f.store.Get(f.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: prod.Name + "-kubeconfig"}, s))
	return s
}

// edit changes the kubeconfig Secret as a user does.
func (f *fixture) edit(change func(*corev1.Secret)) {
	f.Helper()
	s := f.secret()
	change(s)
	f.must(f.store.Update(f.Context(), s))
}

func write(content string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Data = map[string][]byte{"value": []byte(content)} }
}

func mark(s *corev1.Secret) {
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[infrav1.UserManagedAnnotation] = "true"
}

func unmark(s *corev1.Secret) { delete(s.Annotations, infrav1.UserManagedAnnotation) }

// TestSecretMadeBeforehand: a kubeconfig Secret that the provider did not write is left alone, and its server is not asked. Both
// ways out work. It does not help if the user also sets the portal cluster and its endpoint.
func TestSecretMadeBeforehand(t *testing.T) {
	portals := newAPIServer(workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
	for _, marked := range []bool{false, true} {
		withFixture(t, &portals, func(f *fixture) {
			server := newAPIServer(workload.Working)
			theirs := server.kubeconfig("token: theirs")
			f.change(func(cp *infrav1.PortalControlPlane) {
				cp.Annotations = nil
				cp.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.66", Port: 6443}
			})
			f.connect() // the claim takes a pass of its own
			secret := &corev1.Secret{Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": []byte(theirs)}}
			secret.Namespace, secret.Name, secret.Labels = prod.Namespace, prod.Name+"-kubeconfig", map[string]string{clusterv1.ClusterNameLabel: prod.Name}
			f.must(f.store.Create(f.Context(), secret))
			s := f.connect()
			if o := s.outcomes[infrav1.KubeconfigReadyCondition]; !stalled(o, infrav1.SecretTakenReason, infrav1.UserManagedAnnotation) {
				t.Errorf("%+v", o)
			}
			if s.way.Health != workload.Working || f.stored() != theirs || server.hits > 0 || len(f.secret().OwnerReferences) > 0 {
				t.Errorf("the Secret is used or changed: %+v, %d requests", s.outcomes, server.hits)
			}
			if !marked {
				f.must(f.store.Delete(t.Context(), f.secret()))
				if s := f.connect(); !s.done(infrav1.KubeconfigReadyCondition) || !f.storedIs(portals) {
					t.Errorf("after it was deleted: %+v", s.outcomes)
				}
				return
			}
			f.edit(mark)
			if s := f.connect(); !s.done(infrav1.KubeconfigReadyCondition) || s.way.Health != workload.Working || server.hits == 0 || f.stored() != theirs {
				t.Errorf("marked as user-managed: %+v", s.outcomes)
			}
			if host := f.controlPlane().Spec.ControlPlaneEndpoint.Host; f.fetches() != 1 || host != "192.0.2.66" {
				t.Errorf("the portal was asked %d times whether the account has the cluster, the endpoint is %s", f.fetches(), host)
			}
		})
	}
}

// TestUserManaged: the user's kubeconfig is never replaced, even if it stops working, and conditions report what to do.
func TestUserManaged(t *testing.T) {
	portals := newAPIServer(workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
	works, refuses := newAPIServer(workload.Working), newAPIServer(workload.Unauthorized)
	for title, test := range map[string]struct{ theirs, of, reason string }{
		"it works":       {works.kubeconfig("token: theirs"), infrav1.KubeconfigReadyCondition, ""},
		"it is refused":  {refuses.kubeconfig("token: theirs"), infrav1.ConnectedCondition, infrav1.ConnectionDownReason},
		"it has expired": {refuses.kubeconfig("token: " + kubeconfigs.JWT(`{"exp":1000}`)), infrav1.KubeconfigReadyCondition, infrav1.KubeconfigRefusedReason},
		"it is damaged":  {"{", infrav1.KubeconfigReadyCondition, infrav1.KubeconfigInvalidReason},
	} {
		t.Run(title, func(t *testing.T) {
			withFixture(t, &portals, func(f *fixture) {
				f.connect()
				f.edit(write(test.theirs))
				f.edit(mark)
				o := f.liveBy(f.connect, 2*time.Minute).outcomes[test.of]
				if o.Reason != test.reason || !o.IsDone() && !says(o, test.reason, "prod-kubeconfig", "and the provider stores the portal's kubeconfig") {
					t.Errorf("%+v", o)
				}
				if f.stored() != test.theirs || f.fetches() > 5 || strings.Contains(o.Message, kubeconfigs.Canary) {
					t.Errorf("replaced after %d fetches", f.fetches())
				}
				f.must(f.store.Delete(t.Context(), f.secret()))
				if f.connect(); !f.storedIs(portals) {
					t.Error("the way out does not work")
				}
			})
		})
	}
}

// TestUserManagedOfGoneCluster: the provider notices that a portal cluster is gone, although the kubeconfig does not come from
// the portal.
func TestUserManagedOfGoneCluster(t *testing.T) {
	portals := newAPIServer(workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &portals, func(f *fixture) {
		f.connect()
		f.edit(write(newAPIServer(workload.Unreachable).kubeconfig("token: theirs")))
		f.edit(mark)
		f.vanish()
		f.connect()
		if got := f.reason(infrav1.ProvisionedCondition); got != infrav1.PortalClusterGoneReason {
			t.Errorf("Provisioned is %s", got)
		}
	})
}

// TestChangedSecret: a Secret that the provider wrote is replaced when its content has changed, and its server is not asked. So
// is one from an older backup, and one of an earlier version of the provider, whose records have no digest.
func TestChangedSecret(t *testing.T) {
	theirs := newAPIServer(workload.Working)
	portals := newAPIServer(workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
	edited := write(theirs.kubeconfig("token: theirs"))
	for title, change := range map[string]func(f *fixture){
		"edited":                 func(f *fixture) { f.edit(edited) },
		"emptied":                func(f *fixture) { f.edit(func(s *corev1.Secret) { s.Data = nil }) },
		"unchanged, but unknown": func(f *fixture) { f.changeRecord(func(r *operation.Record) { r.KubeconfigDigest = "" }) },
		"no longer user-managed": func(f *fixture) { f.edit(mark); f.edit(edited); f.edit(unmark) },
		"while it is connected":  func(f *fixture) { f.restart(); f.edit(edited) },
	} {
		t.Run(title, func(t *testing.T) {
			withFixture(t, &portals, func(f *fixture) {
				f.connect()
				change(f)
				if s := f.connect(); !s.done(infrav1.KubeconfigReadyCondition) || s.way.Health != workload.Connecting || !f.storedIs(portals) {
					t.Errorf("%+v", s.outcomes)
				}
				if f.workloads.kubeconfig != f.stored() || f.fetches() != 2 || theirs.hits > 0 {
					t.Errorf("%d fetches, %d connections to another server, the newest with %q", f.fetches(), theirs.hits, f.workloads.kubeconfig)
				}
			})
		})
	}
}

// TestChangedSecretWithoutPortal: as long as the portal returns no other one, the changed kubeconfig is not used, and a condition
// reports why.
func TestChangedSecretWithoutPortal(t *testing.T) {
	theirs := newAPIServer(workload.Working)
	portals := newAPIServer(workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &portals, func(f *fixture) {
		f.connect()
		f.edit(write(theirs.kubeconfig("token: theirs")))
		s := f.scope()
		s.outcomes[infrav1.ProvisionedCondition] = outcome.Outcome{}
		s.Infrastructure = outcome.WaitFor(0, infrav1.PortalUnavailableReason, "the portal is away")
		o := f.manager.reconcileKubeconfig(t.Context(), s)
		if !stalled(o, infrav1.KubeconfigInvalidReason, "cannot be fetched: the portal is away") || theirs.hits > 0 {
			t.Errorf("used %d times: %+v", theirs.hits, o)
		}
	})
}

// TestSecretWakesWithoutLabels: a Secret that a user made beforehand may carry no label, and its deletion wakes the control plane.
func TestSecretWakesWithoutLabels(t *testing.T) {
	live(t, 1, func(f *fixture) {
		f.must(f.store.Create(f.Context(), f.scope().Cluster))
		for name, want := range map[string][]reconcile.Request{
			"prod-kubeconfig": {{NamespacedName: prod}}, "prod-ca": nil, "other-kubeconfig": nil, "kubeconfig": nil,
		} {
			s := &corev1.Secret{}
			s.Namespace, s.Name = prod.Namespace, name
			if got := f.manager.fromSecret(f.Context(), s); !slices.Equal(got, want) {
				f.Errorf("%s wakes %v", name, got)
			}
		}
	})
}

// TestPortalCannotNameAnyServer checks that a kubeconfig whose server is on loopback, or is a metadata service, is not stored: a
// tenant's own portal would lead the manager there. TestHostsByAddress of package cloud has more.
func TestPortalCannotNameAnyServer(t *testing.T) {
	for server, refused := range map[string]bool{"https://127.0.0.1:6443": true, "https://169.254.169.254": true, "https://10.0.0.7:6443": false} {
		portals := kubeconfigs.For("server: '"+server+"'", "token: "+kubeconfigs.Canary)
		withFixture(t, &portals, func(f *fixture) {
			f.manager.Access.Hosts = &cloud.Hosts{}
			o := f.connect().outcomes[infrav1.KubeconfigReadyCondition]
			if refused != stalled(o, infrav1.KubeconfigInvalidReason, "its server names a host") {
				t.Errorf("%s: %+v", server, o)
			}
			stored := &corev1.SecretList{}
			if f.must(f.store.List(t.Context(), stored)); (len(stored.Items) == 0) != refused {
				t.Errorf("%s: %d Secrets", server, len(stored.Items))
			}
		})
	}
}
