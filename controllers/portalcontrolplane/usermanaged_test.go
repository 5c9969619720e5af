// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/workload"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// secret is the kubeconfig Secret.
func (f *fixture) secret() *corev1.Secret {
	f.Helper()
	s := &corev1.Secret{}
	f.must(f.store.Get(f.Context(), client.ObjectKey{Namespace: prod.Namespace, Name: prod.Name + "-kubeconfig"}, s))
	return s
}

// makeSecret creates the kubeconfig Secret as a user does, with the labels of the provider's own.
func (f *fixture) makeSecret(content string) {
	f.Helper()
	s := &corev1.Secret{Type: clusterv1.ClusterSecretType, Data: map[string][]byte{"value": []byte(content)}}
	s.Namespace, s.Name, s.Labels = prod.Namespace, prod.Name+"-kubeconfig", map[string]string{clusterv1.ClusterNameLabel: prod.Name}
	f.must(f.store.Create(f.Context(), s))
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

// adopt makes the control plane name a portal cluster and its endpoint, as a tenant does, without any record of the cluster.
func (f *fixture) adopt() {
	f.Helper()
	f.change(func(cp *infrav1.PortalControlPlane) {
		cp.Annotations = nil
		cp.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.66", Port: 6443}
	})
	f.connect() // the claim takes a pass of its own
}

// TestSecretMadeBeforehand: a kubeconfig Secret that the provider did not write is left alone, and its server is not asked. Both
// ways out work. It does not help if the user also sets the portal cluster and its endpoint.
func TestSecretMadeBeforehand(t *testing.T) {
	server := newAPIServer(t, workload.Working)
	theirs, portals := server.kubeconfig("token: theirs"), newAPIServer(t, workload.Working).kubeconfig("token: "+kubeconfigs.Canary)
	held := func(f *fixture) {
		f.Helper()
		f.adopt()
		f.makeSecret(theirs)
		s := f.connect()
		o := s.outcomes[infrav1.KubeconfigReadyCondition]
		if o.Kind != outcome.Stalled || o.Reason != infrav1.SecretTakenReason || !strings.Contains(o.Message, infrav1.UserManagedAnnotation) {
			t.Errorf("%+v", o)
		}
		if s.way.Access != workload.Working || f.stored() != theirs || server.hits.Load() > 0 || len(f.secret().OwnerReferences) > 0 {
			t.Errorf("the Secret is used or changed: %+v, %d requests", s.outcomes, server.hits.Load())
		}
	}
	t.Run("it is deleted", func(t *testing.T) {
		withFixture(t, &portals, func(f *fixture) {
			held(f)
			f.must(f.store.Delete(t.Context(), f.secret()))
			if s := f.connect(); !s.done(infrav1.KubeconfigReadyCondition) || !f.storedIs(portals) {
				t.Errorf("%+v", s.outcomes)
			}
		})
	})
	t.Run("it is marked as user-managed", func(t *testing.T) {
		withFixture(t, &portals, func(f *fixture) {
			held(f)
			f.edit(mark)
			if s := f.connect(); !s.done(infrav1.KubeconfigReadyCondition) || s.way.Access != workload.Working || server.hits.Load() == 0 || f.stored() != theirs {
				t.Errorf("%+v", s.outcomes)
			}
			if f.fetches() != 1 || f.controlPlane().Spec.ControlPlaneEndpoint.Host != "192.0.2.66" {
				t.Errorf("the portal was asked %d times whether the account has the cluster, the endpoint is %s", f.fetches(), f.controlPlane().Spec.ControlPlaneEndpoint.Host)
			}
		})
	})
}

// TestUserManaged: the user's kubeconfig is never replaced, even if it stops working, and conditions report what to do.
func TestUserManaged(t *testing.T) {
	portals := newAPIServer(t, workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
	works := newAPIServer(t, workload.Working)
	tests := map[string]struct{ theirs, of, reason string }{
		"it works":                {works.kubeconfig("token: theirs"), infrav1.KubeconfigReadyCondition, ""},
		"it is refused":           {newAPIServer(t, workload.Unauthorized).kubeconfig("token: theirs"), infrav1.ConnectedCondition, infrav1.ConnectionDownReason},
		"nothing answers":         {newAPIServer(t, workload.Unreachable).kubeconfig("token: theirs"), infrav1.ConnectedCondition, infrav1.ConnectionDownReason},
		"another certificate":     {newAPIServer(t, workload.Untrusted).kubeconfig("token: theirs"), infrav1.ConnectedCondition, infrav1.ConnectionDownReason},
		"it has expired":          {newAPIServer(t, workload.Unauthorized).kubeconfig("token: " + kubeconfigs.JWT(`{"exp":1000}`)), infrav1.KubeconfigReadyCondition, infrav1.KubeconfigRefusedReason},
		"it names a token's file": {works.kubeconfig("tokenFile: /etc/hostname"), infrav1.KubeconfigReadyCondition, infrav1.KubeconfigInvalidReason},
		"it is damaged":           {"{", infrav1.KubeconfigReadyCondition, infrav1.KubeconfigInvalidReason},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			withFixture(t, &portals, func(f *fixture) {
				f.connect()
				f.edit(write(test.theirs))
				f.edit(mark)
				var s *scope
				for range 120 {
					s = f.connect()
					time.Sleep(time.Second)
				}
				o := s.outcomes[test.of]
				if o.Reason != test.reason || !o.IsDone() && !(strings.Contains(o.Message, "prod-kubeconfig") && strings.HasSuffix(o.Message, "and the provider stores the portal's kubeconfig")) {
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
	theirs, portals := newAPIServer(t, workload.Unreachable).kubeconfig("token: theirs"), newAPIServer(t, workload.Working).kubeconfig("token: "+kubeconfigs.Canary)
	withFixture(t, &portals, func(f *fixture) {
		f.connect()
		f.edit(write(theirs))
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
	theirs := newAPIServer(t, workload.Working)
	portals := newAPIServer(t, workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
	tests := map[string]func(f *fixture){
		"edited":                 func(f *fixture) { f.edit(write(theirs.kubeconfig("token: theirs"))) },
		"damaged":                func(f *fixture) { f.edit(write("{")) },
		"emptied":                func(f *fixture) { f.edit(func(s *corev1.Secret) { s.Data = nil }) },
		"with a token's file":    func(f *fixture) { f.edit(write(theirs.kubeconfig("tokenFile: /etc/hostname"))) },
		"of an older backup":     func(f *fixture) { f.edit(write(theirs.kubeconfig("token: old"))) },
		"by an earlier version":  func(f *fixture) { f.edit(write(portals)); f.forgetDigest() },
		"unchanged, but unknown": func(f *fixture) { f.forgetDigest() },
		"no longer user-managed": func(f *fixture) { f.edit(mark); f.edit(write(theirs.kubeconfig("token: theirs"))); f.edit(unmark) },
		"while it is connected":  func(f *fixture) { f.restart(); f.edit(write(theirs.kubeconfig("token: theirs"))) },
	}
	for title, change := range tests {
		t.Run(title, func(t *testing.T) {
			withFixture(t, &portals, func(f *fixture) {
				f.connect()
				change(f)
				if s := f.connect(); !s.done(infrav1.KubeconfigReadyCondition) || s.way.Access != workload.Connecting || !f.storedIs(portals) {
					t.Errorf("%+v", s.outcomes)
				}
				if f.workloads.kubeconfig != f.stored() || f.fetches() != 2 || theirs.hits.Load() > 0 {
					t.Errorf("%d fetches, %d connections to another server, the newest with %q", f.fetches(), theirs.hits.Load(), f.workloads.kubeconfig)
				}
			})
		})
	}
}

func (f *fixture) forgetDigest() {
	f.Helper()
	f.change(func(cp *infrav1.PortalControlPlane) {
		record := stateOf(cp).Record
		record.KubeconfigDigest = ""
		putRecord(cp, record)
	})
}

// TestChangedSecretWithoutPortal: as long as the portal returns no other one, the changed kubeconfig is not used, and a condition
// reports why.
func TestChangedSecretWithoutPortal(t *testing.T) {
	theirs := newAPIServer(t, workload.Working)
	portals := newAPIServer(t, workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &portals, func(f *fixture) {
		f.connect()
		f.edit(write(theirs.kubeconfig("token: theirs")))
		s := f.scope()
		s.outcomes[infrav1.ProvisionedCondition] = outcome.Outcome{}
		s.Infrastructure = outcome.WaitFor(0, infrav1.PortalUnavailableReason, "the portal is away")
		o := f.manager.reconcileKubeconfig(t.Context(), s)
		if o.Kind != outcome.Stalled || o.Reason != infrav1.KubeconfigInvalidReason || !strings.HasSuffix(o.Message, "cannot be fetched: the portal is away") {
			t.Errorf("%+v", o)
		}
		if theirs.hits.Load() > 0 {
			t.Error("the changed kubeconfig is used")
		}
	})
}

// TestCrashBeforeTheSecret: a manager that stops between the digest and the Secret leaves nothing that a person has to repair.
func TestCrashBeforeTheSecret(t *testing.T) {
	for _, first := range []bool{true, false} {
		portals := kubeconfigs.For("server: 'https://192.0.2.1'", "token: old")
		withFixture(t, &portals, func(f *fixture) {
			if !first {
				f.connect()
				f.edit(func(s *corev1.Secret) { s.Data = map[string][]byte{"value": []byte("{")} })
			}
			s := f.scope()
			portals = kubeconfigs.For("server: 'https://192.0.2.2'", "token: new")
			if err := s.Change(t.Context(), func(next *operation.State) {
				next.Record.Endpoint, next.Record.KubeconfigDigest = clusterv1.APIEndpoint{Host: "192.0.2.1", Port: 443}, "digest of what was never stored"
				s.ControlPlane.Spec.ControlPlaneEndpoint = next.Record.Endpoint
			}); err != nil {
				t.Fatal(err)
			}
			f.restart()
			if s := f.connect(); !s.done(infrav1.KubeconfigReadyCondition) || !f.storedIs(portals) {
				t.Errorf("first %t: %+v", first, s.outcomes)
			}
		})
	}
}

// TestSecretWakesWithoutLabels: a Secret that a user made beforehand may carry no label, and its deletion wakes the control plane.
func TestSecretWakesWithoutLabels(t *testing.T) {
	live(t, 1, func(f *fixture) {
		cluster := &clusterv1.Cluster{}
		cluster.Namespace, cluster.Name = prod.Namespace, prod.Name
		cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{Kind: "PortalControlPlane", Name: prod.Name}
		f.must(f.store.Create(f.Context(), cluster))
		for name, want := range map[string][]reconcile.Request{"prod-kubeconfig": {{NamespacedName: prod}}, "prod-ca": nil, "other-kubeconfig": nil, "kubeconfig": nil} {
			s := &corev1.Secret{}
			s.Namespace, s.Name = prod.Namespace, name
			if got := f.manager.fromSecret(f.Context(), s); len(got) != len(want) || len(got) > 0 && got[0] != want[0] {
				f.Errorf("%s wakes %v", name, got)
			}
		}
	})
}

// TestKubeconfigOwnerComesBack restores the kubeconfig Secret from a backup while the portal is away: without its owner, or with the UID that the
// control plane had before. A kubeconfig that another controller provides keeps its owner.
func TestKubeconfigOwnerComesBack(t *testing.T) {
	portals := newAPIServer(t, workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
	for title, test := range map[string]struct {
		kind      string
		uid, want types.UID
	}{
		"no owner":           {"", "", "uid-prod"},
		"the UID of before":  {"PortalControlPlane", "before", "uid-prod"},
		"another controller": {"Vault", "vault", "vault"},
	} {
		t.Run(title, func(t *testing.T) {
			withFixture(t, &portals, func(f *fixture) {
				f.connect()
				f.edit(func(s *corev1.Secret) {
					if s.OwnerReferences = nil; test.kind != "" {
						meta := metav1.ObjectMeta{Name: prod.Name, UID: test.uid}
						s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&meta, infrav1.GroupVersion.WithKind(test.kind))}
					}
				})
				f.strike(emulator.Fault{Status: 503})
				f.connect()
				if owner := metav1.GetControllerOf(f.secret()); owner == nil || owner.UID != test.want {
					t.Errorf("controlled by %+v, want %s", owner, test.want)
				}
			})
		})
	}
}

// TestPortalCannotNameAnyServer checks that a kubeconfig whose server is on loopback, or is a metadata service, is not stored: a
// tenant's own portal would lead the manager there.
func TestPortalCannotNameAnyServer(t *testing.T) {
	for server, refused := range map[string]bool{
		"https://127.0.0.1:6443": true, "https://169.254.169.254": true, "https://[fd00:ec2::254]": true, "https://localhost": true,
		"https://api.portal.example": false, "https://10.0.0.7:6443": false,
	} {
		portals := kubeconfigs.For("server: '"+server+"'", "token: "+kubeconfigs.Canary)
		withFixture(t, &portals, func(f *fixture) {
			f.manager.Access.Hosts = &cloud.Hosts{}
			o := f.connect().outcomes[infrav1.KubeconfigReadyCondition]
			if refused && (o.Reason != infrav1.KubeconfigInvalidReason || !strings.Contains(o.Message, "its server names a host")) {
				t.Errorf("%s: %+v", server, o)
			}
			stored := client.ObjectKey{Namespace: prod.Namespace, Name: prod.Name + "-kubeconfig"}
			if err := f.store.Get(t.Context(), stored, &corev1.Secret{}); client.IgnoreNotFound(err) != nil || (err != nil) != refused {
				t.Errorf("%s: the kubeconfig Secret: %v", server, err)
			}
		})
	}
}
