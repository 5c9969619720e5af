// SPDX-License-Identifier: Apache-2.0

package release

import (
	"debug/buildinfo"
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	home          = "capportal-system"
	providerLabel = "cluster.x-k8s.io/provider"
)

// TestComponents checks that the objects of clusterctl init are complete, labelled, in one namespace, and accepted by an API server.
func TestComponents(t *testing.T) {
	g := NewWithT(t)
	objects := components(t)
	g.Expect(one(t, objects, "Namespace").GetName()).To(Equal(home))
	for _, object := range objects {
		name := object.GetKind() + " " + object.GetName()
		g.Expect(object.GetLabels()).To(HaveKeyWithValue(providerLabel, "infrastructure-portal"), name)
		g.Expect(object.GetNamespace()).To(BeElementOf("", home), name)
		g.Expect(dryRun(t, object)).To(Succeed())
		if object.GetKind() == "CustomResourceDefinition" {
			g.Expect(object.GetLabels()).To(HaveKeyWithValue("cluster.x-k8s.io/v1beta2", "v1beta1"), name)
		}
	}
	// The file itself has the labels, because users who apply it with kubectl may use clusterctl later.
	for _, object := range parse(t, written(t, "infrastructure-components.yaml")) {
		g.Expect(object.GetLabels()).To(HaveKeyWithValue(providerLabel, "infrastructure-portal"), object.GetName())
	}
}

// TestDeployment checks that clusterctl, the kubelet and Prometheus find the manager at the ports and names that they use.
func TestDeployment(t *testing.T) {
	g := NewWithT(t)
	d := deployment(t)
	g.Expect(d.Namespace).To(Equal(home))
	pod := d.Spec.Template.Spec
	g.Expect(pod.Containers).To(HaveLen(1))
	manager := pod.Containers[0]
	g.Expect(manager.Name).To(Equal("manager"))
	g.Expect(manager.Image).To(Equal(image))
	g.Expect(manager.Args).To(ConsistOf("--leader-elect", "--diagnostics-address=:8443", "--insecure-diagnostics=false"))
	g.Expect(pod.TerminationGracePeriodSeconds).To(HaveValue(BeNumerically(">", 90)), "must exceed the time in which the manager ends its calls")

	ports := map[string]int32{}
	for _, port := range manager.Ports {
		ports[port.Name] = port.ContainerPort
	}
	g.Expect(ports).To(Equal(map[string]int32{"healthz": 9440, "metrics": 8443}))
	for _, probe := range []*corev1.Probe{manager.LivenessProbe, manager.ReadinessProbe} {
		g.Expect(probe.HTTPGet.Port).To(Equal(intstr.FromString("healthz")))
	}

	service := &corev1.Service{}
	convert(t, one(t, components(t), "Service"), service)
	g.Expect(service.Spec.Ports).To(HaveLen(1))
	g.Expect(service.Spec.Ports[0].TargetPort).To(Equal(intstr.FromString("metrics")))
	g.Expect(service.Spec.Selector).NotTo(BeEmpty())
	for key, value := range service.Spec.Selector {
		g.Expect(d.Spec.Template.Labels).To(HaveKeyWithValue(key, value))
	}
}

// TestMemoryLimit checks that the runtime's limit, which does not count the binary's pages, is below the container's limit.
func TestMemoryLimit(t *testing.T) {
	g := NewWithT(t)
	container := deployment(t).Spec.Template.Spec.Containers[0]
	limit := resource.Quantity{}
	for _, variable := range container.Env {
		if variable.Name == "GOMEMLIMIT" {
			limit = resource.MustParse(strings.TrimSuffix(variable.Value, "B"))
		}
	}
	g.Expect(limit.Value()).To(And(
		BeNumerically(">", container.Resources.Requests.Memory().Value()), BeNumerically("<=", container.Resources.Limits.Memory().Value()*9/10)))
}

// TestBinary checks that the program needs no libraries of the image, and contains the certificate authorities that an empty image lacks.
func TestBinary(t *testing.T) {
	g := NewWithT(t)
	info, err := buildinfo.ReadFile(box.Binary("manager"))
	g.Expect(err).NotTo(HaveOccurred())
	var modules, settings []string
	for _, module := range info.Deps {
		modules = append(modules, module.Path)
	}
	for _, setting := range info.Settings {
		settings = append(settings, setting.Key+"="+setting.Value)
	}
	g.Expect(modules).To(ContainElement("golang.org/x/crypto/x509roots/fallback"))
	g.Expect(settings).To(ContainElements("CGO_ENABLED=0", "-trimpath=true"))
}

// TestVersion checks that the settings for Cluster API's Tilt and clusterctl name the next version and its components.
func TestVersion(t *testing.T) {
	g := NewWithT(t)
	settings := struct {
		Config struct{ NextVersion, ComponentsFile string }
	}{}
	g.Expect(json.Unmarshal([]byte(source(t, "clusterctl-settings.json")), &settings)).To(Succeed())
	g.Expect(settings.Config.NextVersion).To(Equal(releaseVersion))
	written(t, settings.Config.ComponentsFile)
}

func deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	return deploymentOf(t, components(t))
}

func deploymentOf(t *testing.T, objects []*unstructured.Unstructured) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	convert(t, one(t, objects, "Deployment"), d)
	return d
}

// TestDiagnostics checks that the variables that configure Cluster API's own managers also configure this one.
func TestDiagnostics(t *testing.T) {
	objects := provider(t, map[string]string{"CAPI_DIAGNOSTICS_ADDRESS": "localhost:8080", "CAPI_INSECURE_DIAGNOSTICS": "true"})
	NewWithT(t).Expect(deploymentOf(t, objects).Spec.Template.Spec.Containers[0].Args).
		To(ContainElements("--diagnostics-address=localhost:8080", "--insecure-diagnostics=true"))
}

// TestRestricted checks that the namespace enforces the restricted Pod Security level and admits the manager's Pod.
func TestRestricted(t *testing.T) {
	g := NewWithT(t)
	template := deployment(t).Spec.Template
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.GenerateName = home, "manager-"
	loose := pod.DeepCopy()
	loose.Spec.SecurityContext.SeccompProfile = nil
	g.Expect(box.Client.Create(t.Context(), loose, client.DryRunAll)).To(MatchError(ContainSubstring("restricted")))
	g.Expect(box.Client.Create(t.Context(), pod, client.DryRunAll)).To(Succeed())
	g.Expect(pod.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem).To(HaveValue(BeTrue()))
}
