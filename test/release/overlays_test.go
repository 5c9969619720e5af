// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// overlaid adds components of config/ to the release, in this order, as docs/install.md describes.
func overlaid(t *testing.T, components ...string) []*unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	overlay := t.TempDir()
	for _, component := range components {
		g.Expect(os.CopyFS(filepath.Join(overlay, component), os.DirFS(filepath.Join(root, "config", component)))).To(Succeed())
	}
	g.Expect(os.WriteFile(filepath.Join(overlay, "components.yaml"), []byte(written(t, "infrastructure-components.yaml")), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(overlay, "kustomization.yaml"),
		fmt.Appendf(nil, "resources: [components.yaml]\ncomponents: [%s]\n", strings.Join(components, ", ")), 0o600)).To(Succeed())
	out, err := exec.CommandContext(t.Context(), box.Binary("kustomize"), "build", overlay).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	// The variables of clusterctl stay, because users of an overlay have clusterctl replace them.
	return parse(t, string(out))
}

// TestMonitor checks that the optional ServiceMonitor can be added to a release, and selects its Service.
func TestMonitor(t *testing.T) {
	g := NewWithT(t)
	monitor := one(t, overlaid(t, "metrics/monitor"), "ServiceMonitor")
	service := one(t, components(t), "Service")
	g.Expect(monitor.GetNamespace()).To(Equal(service.GetNamespace()))
	selector, found, err := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found).To(BeTrue())
	for key, value := range selector {
		g.Expect(service.GetLabels()).To(HaveKeyWithValue(key, value))
	}
	g.Expect(endpoint(t, monitor)).To(And(HaveKeyWithValue("port", "metrics"), HaveKeyWithValue("scheme", "https")))
	g.Expect(written(t, "infrastructure-components.yaml")).NotTo(ContainSubstring("monitoring.coreos.com"))
}

// TestMonitoring checks that a release has the rules and dashboards as they are in config/, and that its PrometheusRule has the same rules.
func TestMonitoring(t *testing.T) {
	g := NewWithT(t)
	rules := source(t, "config/metrics/rules/rules.yaml")
	g.Expect(written(t, "prometheus-rules.yaml")).To(Equal(rules))
	g.Expect(written(t, "kube-state-metrics-config.yaml")).To(Equal(source(t, "config/metrics/kube-state-metrics/config.yaml")))
	g.Expect(written(t, "kube-state-metrics-role.yaml")).To(Equal(source(t, "config/metrics/kube-state-metrics/role.yaml")))
	for _, name := range []string{"accounts.json", "cluster.json", "fleet.json", "jobs.json"} {
		g.Expect(written(t, "dashboard-"+name)).To(Equal(source(t, "config/metrics/dashboards/"+name)), name)
	}
	operator := parse(t, written(t, "prometheusrule.yaml"))[0]
	g.Expect(operator.GetKind()).To(Equal("PrometheusRule"))
	g.Expect(operator.Object["spec"]).To(Equal(parse(t, rules)[0].Object))
}

func endpoint(t *testing.T, monitor *unstructured.Unstructured) map[string]any {
	t.Helper()
	g := NewWithT(t)
	endpoints, _, err := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(endpoints).To(HaveLen(1))
	return endpoints[0].(map[string]any)
}

// TestNetworkPolicy checks that an API server accepts the optional policy, and that the policy selects the manager's Pod, allows
// connections to the metrics port, and refuses connections to link-local addresses.
func TestNetworkPolicy(t *testing.T) {
	g := NewWithT(t)
	object := one(t, overlaid(t, "networkpolicy"), "NetworkPolicy")
	g.Expect(dryRun(t, object)).To(Succeed())
	policy := &networkingv1.NetworkPolicy{}
	convert(t, object, policy)
	pod := deployment(t).Spec.Template
	g.Expect(policy.Namespace).To(Equal(home))
	g.Expect(labels.SelectorFromSet(policy.Spec.PodSelector.MatchLabels).Matches(labels.Set(pod.Labels))).To(BeTrue())
	g.Expect(policy.Spec.PolicyTypes).To(ConsistOf(networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress))

	g.Expect(policy.Spec.Ingress).To(HaveLen(1))
	g.Expect(policy.Spec.Ingress[0].From).NotTo(BeEmpty(), "an empty list allows all sources")
	g.Expect(policy.Spec.Ingress[0].Ports).To(HaveLen(1))
	var ports []string
	for _, port := range pod.Spec.Containers[0].Ports {
		ports = append(ports, port.Name)
	}
	g.Expect(ports).To(ContainElement(policy.Spec.Ingress[0].Ports[0].Port.StrVal))

	excepted := map[string][]string{}
	for _, rule := range policy.Spec.Egress {
		if len(rule.To) == 0 {
			for _, port := range rule.Ports {
				g.Expect(port.Port.IntValue()).To(Equal(53), "only DNS may connect to all addresses")
			}
			g.Expect(rule.Ports).NotTo(BeEmpty())
		}
		for _, to := range rule.To {
			excepted[to.IPBlock.CIDR] = to.IPBlock.Except
		}
	}
	g.Expect(excepted).To(HaveKeyWithValue("0.0.0.0/0", ContainElement("169.254.0.0/16")))
	g.Expect(excepted).To(HaveKeyWithValue("::/0", ContainElement("fe80::/10")))
}

// TestMetricsCertificate checks that, with the optional certificate, the manager mounts the Secret that cert-manager writes for the
// Service's name, and Prometheus verifies the certificate.
func TestMetricsCertificate(t *testing.T) {
	g := NewWithT(t)
	objects := overlaid(t, "metrics/monitor", "metrics/certificate")
	pod := deploymentOf(t, objects).Spec.Template.Spec
	g.Expect(pod.Containers[0].VolumeMounts).To(HaveLen(1))
	mount := pod.Containers[0].VolumeMounts[0]
	g.Expect(pod.Containers[0].Args).To(ContainElements("--leader-elect", "--metrics-cert-dir="+mount.MountPath))
	g.Expect(pod.Volumes).To(HaveLen(1))
	g.Expect(pod.Volumes[0].Name).To(Equal(mount.Name))
	secret := pod.Volumes[0].Secret.SecretName
	service := one(t, objects, "Service")
	name := service.GetName() + "." + service.GetNamespace() + ".svc"
	issuers, certificates := map[string]*unstructured.Unstructured{}, map[string]*unstructured.Unstructured{}
	for _, object := range objects {
		switch object.GetKind() {
		case "Issuer":
			issuers[object.GetName()] = object
		case "Certificate":
			certificates[text(t, object, "spec", "secretName")] = object
		}
	}
	g.Expect(certificates).To(HaveKey(secret))
	names, _, err := unstructured.NestedStringSlice(certificates[secret].Object, "spec", "dnsNames")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(names).To(ContainElement(name))
	issuer := issuers[text(t, certificates[secret], "spec", "issuerRef", "name")]
	g.Expect(issuer).NotTo(BeNil())
	authority := certificates[text(t, issuer, "spec", "ca", "secretName")]
	g.Expect(authority).NotTo(BeNil(), "the certificate of the metrics must be signed by an authority")
	g.Expect(issuers).To(HaveKey(text(t, authority, "spec", "issuerRef", "name")))

	g.Expect(endpoint(t, one(t, objects, "ServiceMonitor"))).To(HaveKeyWithValue("tlsConfig", Equal(map[string]any{
		"serverName": name, "ca": map[string]any{"secret": map[string]any{"name": secret, "key": "ca.crt"}},
	})))
	g.Expect(written(t, "infrastructure-components.yaml")).NotTo(ContainSubstring("cert-manager.io/v1\n"))
}

func text(t *testing.T, object *unstructured.Unstructured, fields ...string) string {
	t.Helper()
	value, _, err := unstructured.NestedString(object.Object, fields...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}
