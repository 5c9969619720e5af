// SPDX-License-Identifier: Apache-2.0

package world

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestMistakes makes the mistakes that users make, one after the other, and corrects each. A condition says how. As long as a mistake lasts, it
// costs at most one request a minute, and no portal cluster is created.
func TestMistakes(t *testing.T) {
	tale(t, func(w *World) {
		m := NewManifest(2)
		m.PortalCluster.Spec.VPC.Name = "elsewhere"
		m.ControlPlane.Spec.Version = "v1.30.1"
		m.Workers.Spec.Replicas = new(int32(60))
		m.Workers.Spec.Template.Spec.InfrastructureRef.Name = "lost"
		m.Identity.Data[infrav1.IdentityPassword] = nil
		large := NewWorkers("large", 1)
		large.Spec.Template.Spec.InfrastructureRef.Name = "large"
		w.Apply(m)
		w.Delete(m.Identity)
		identity := func(key, value string) func() {
			return func() {
				Edit(w, client.ObjectKeyFromObject(m.Identity), &corev1.Secret{}, func(s *corev1.Secret) { s.Data[key] = []byte(value) })
			}
		}
		workers := func(change func(md *clusterv1.MachineDeployment)) func() {
			return func() { Edit(w, key, theWorkers(), change) }
		}
		for _, mistake := range []struct {
			of                 client.Object
			kind, reason, says string
			correct            func()
		}{
			{thePortalCluster(), infrav1.ReadyCondition, infrav1.IdentityInvalidReason, "Create it with keys baseURL, email and password", func() {
				m.Identity.ResourceVersion = ""
				w.Create(m.Identity)
			}},
			{thePortalCluster(), infrav1.ReadyCondition, infrav1.IdentityInvalidReason, `has no key "password". Add it`, func() {
				identity(infrav1.IdentityPassword, "wrong")()
				identity(infrav1.IdentityBaseURL, "http://portal.example.com")()
			}},
			{thePortalCluster(), infrav1.ReadyCondition, infrav1.IdentityInvalidReason, "https", func() {
				identity(infrav1.IdentityRequestsPerMinute, "many")()
				identity(infrav1.IdentityBaseURL, portalURL)()
			}},
			{thePortalCluster(), infrav1.ReadyCondition, infrav1.IdentityInvalidReason, "requestsPerMinute: must be a whole number",
				identity(infrav1.IdentityRequestsPerMinute, "300")},
			{thePortalCluster(), infrav1.ReadyCondition, infrav1.UnauthorizedReason, "Correct email and password in the identity Secret",
				identity(infrav1.IdentityPassword, password)},
			{thePortalCluster(), infrav1.ReadyCondition, infrav1.RefusedReason, `0 VPCs of the portal account are named "elsewhere"`, func() {
				Edit(w, key, thePortalCluster(), func(c *infrav1.PortalCluster) { c.Spec.VPC.Name = "default" })
			}},
			{theControl(), infrav1.AvailableCondition, infrav1.WaitingForObjectReason,
				"PortalMachineTemplate lost, which a MachineDeployment names, does not exist. Create it", func() {
					w.Create(NewTemplate("large", "large"))
					w.Create(large)
					workers(func(md *clusterv1.MachineDeployment) { md.Spec.Template.Spec.InfrastructureRef.Name = "a" })()
				}},
			{theControl(), infrav1.AvailableCondition, infrav1.TemplateNotHonoredReason, "a: offering small, SSH key pair ops; large: offering large",
				func() { w.Delete(large) }},
			{theControl(), infrav1.AvailableCondition, infrav1.VersionNotOfferedReason, "one of: v1.34.9, v1.35.6, v1.36.3", func() { w.SetVersion(oldVersion) }},
			{theControl(), infrav1.AvailableCondition, infrav1.RefusedReason, "at most 50 workers",
				workers(func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(2)) })},
		} {
			w.See(mistake.of, mistake.kind, "False "+mistake.reason, mistake.says)
			before := len(w.Portal.RequestLog())
			w.Let(20 * time.Minute)
			w.See(mistake.of, mistake.kind, "False "+mistake.reason, mistake.says)
			if asked := len(w.Portal.RequestLog()) - before; asked > 20 {
				t.Errorf("%s: the portal was asked %d times in 20 minutes", mistake.says, asked)
			}
			Equal(w, "portal clusters", len(w.Portal.Clusters()), 0)
			mistake.correct()
		}
		w.Settle(2)
		w.End()
	})
}

// TestKubeconfigSecret changes the kubeconfig Secret of a running cluster as users do. They damage it, replace it, manage it themselves, and delete
// it. The provider replaces at once what they do not manage.
func TestKubeconfigSecret(t *testing.T) {
	const soon = 5 * time.Second // a change of the Secret wakes the control plane
	tale(t, func(w *World) {
		w.CreateCluster(2)
		w.Settle(2)
		secret := &corev1.Secret{ObjectMeta: named(name + suffix)}
		portals := string(read(w, secret).Data["value"])
		content := func(want string) func() string {
			return func() string {
				w.there(secret)
				return diff(string(secret.Data["value"]), want)
			}
		}
		write := func(content string) {
			Edit(w, client.ObjectKeyFromObject(secret), secret, func(s *corev1.Secret) { s.Data["value"] = []byte(content) })
		}
		for _, other := range []string{"damaged", "# mine\n" + portals} {
			w.Let(20 * time.Minute) // so that nothing else wakes the control plane
			write(other)
			w.Until("the provider replaces it at once", soon, content(portals))
		}
		Edit(w, client.ObjectKeyFromObject(secret), secret, func(s *corev1.Secret) { s.Annotations[infrav1.UserManagedAnnotation] = "true" })
		write("# mine\n" + portals)
		w.SetVersion(newVersion) // the provider fetches its own kubeconfig after an upgrade
		w.Upgraded(newVersion)
		w.Scale(3)
		w.Settle(3)
		Equal(w, "what the user manages", content("# mine\n"+portals)(), "")
		w.Delete(secret)
		w.Until("the Secret is there again", soon, content(portals))
		w.Settle(3)
		w.End()
	})
}
