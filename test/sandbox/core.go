// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
)

// featureGates enables ClusterClasses and MachinePools.
const featureGates = "ClusterTopology=true,MachinePool=true"

// installCore installs Cluster API's CRDs and webhooks, and prepares the certificate with which its manager serves the webhooks.
func (s *Sandbox) installCore(ctx context.Context) error {
	if s.options.WithoutCore {
		return nil
	}
	return s.progress.step("Cluster API: CRDs and webhooks", func() error {
		manifests, err := os.ReadFile(s.Binary("capi-core/core-components.yaml"))
		if err != nil {
			return fmt.Errorf("run make kube: %w", err)
		}
		objects, err := Parse(manifests)
		if err != nil {
			return err
		}
		port, err := kubeserver.FreePort(loopback)
		if err != nil {
			return err
		}
		caBundle, err := s.issueWebhookCertificate()
		if err != nil {
			return err
		}
		s.coreWebhookPort = port
		for _, object := range objects {
			if err := reachByURL(object, hostPort(port), caBundle); err != nil {
				return err
			}
			if s.options.StoredVersionsOnly {
				if err := keepStoredVersion(object); err != nil {
					return err
				}
			}
		}
		kinds := []string{"Namespace", "CustomResourceDefinition"}
		if !s.options.APIServerOnly {
			kinds = append(kinds, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
		}
		if s.options.CoreRole {
			kinds = append(kinds, "ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
		}
		return s.install(ctx, objects, kinds...)
	})
}

// startCore runs Cluster API's manager.
func (s *Sandbox) startCore(ctx context.Context) error {
	if s.options.WithoutCore {
		return nil
	}
	return s.progress.step("Cluster API: core manager", func() error {
		ports, err := freePorts(2)
		if err != nil {
			return err
		}
		kubeconfig, err := s.coreKubeconfig()
		if err != nil {
			return err
		}
		s.core, err = kubeserver.Start(ctx, kubeserver.Spec{
			Name: "core",
			Path: s.Binary("capi-core-manager"),
			Args: append([]string{
				"--feature-gates=" + featureGates,
				"--webhook-port=" + strconv.Itoa(s.coreWebhookPort), "--webhook-cert-dir=" + s.webhookDir(),
				"--health-addr=" + hostPort(ports[0]),
				"--diagnostics-address=" + hostPort(ports[1]), "--insecure-diagnostics",
			}, s.options.CoreArgs...),
			Env:   []string{"KUBECONFIG=" + kubeconfig, "GOGC=400"}, // as for the management API server
			Log:   filepath.Join(s.Dir, "core.log"),
			Ready: readyz(ports[0]),
		})
		return err
	})
}

// coreKubeconfig returns the kubeconfig file of Cluster API's manager.
func (s *Sandbox) coreKubeconfig() (string, error) {
	if !s.options.CoreRole {
		return s.Kubeconfig, nil
	}
	return s.plane.WriteKubeconfig("core.kubeconfig", "system:serviceaccount:capi-system:capi-manager",
		"system:serviceaccounts", "system:serviceaccounts:capi-system")
}

// issueWebhookCertificate writes the certificate of the webhook server, and returns the CA for the API server.
func (s *Sandbox) issueWebhookCertificate() ([]byte, error) {
	if err := os.MkdirAll(s.webhookDir(), 0o700); err != nil {
		return nil, err
	}
	ca, err := kubeserver.NewCA("webhooks")
	if err != nil {
		return nil, err
	}
	pair, err := ca.Serve("capi-webhook-service", loopback)
	if err != nil {
		return nil, err
	}
	return ca.PEM(), pair.WriteTo(s.webhookDir(), "tls")
}

func (s *Sandbox) webhookDir() string { return filepath.Join(s.Dir, "webhook-certificates") }

// reachByURL makes the API server call an object's webhooks, admission or conversion, at a URL on this machine instead of a Service. It
// does not change other objects.
func reachByURL(object *unstructured.Unstructured, host string, caBundle []byte) error {
	if object.GetKind() == "CustomResourceDefinition" {
		webhook, found, err := unstructured.NestedMap(object.Object, "spec", "conversion", "webhook")
		if err != nil || !found {
			return err
		}
		if err := replaceService(webhook, host, caBundle); err != nil {
			return err
		}
		return unstructured.SetNestedMap(object.Object, webhook, "spec", "conversion", "webhook")
	}
	webhooks, found, err := unstructured.NestedSlice(object.Object, "webhooks")
	if err != nil || !found {
		return err
	}
	for _, webhook := range webhooks {
		if err := replaceService(webhook.(map[string]any), host, caBundle); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return unstructured.SetNestedSlice(object.Object, webhooks, "webhooks")
}

// keepStoredVersion removes the other versions from a CRD, and with them the conversion. It does not change other objects.
func keepStoredVersion(object *unstructured.Unstructured) error {
	if object.GetKind() != "CustomResourceDefinition" {
		return nil
	}
	versions, _, err := unstructured.NestedSlice(object.Object, "spec", "versions")
	if err != nil {
		return err
	}
	versions = slices.DeleteFunc(versions, func(version any) bool {
		stored, _, _ := unstructured.NestedBool(version.(map[string]any), "storage")
		return !stored
	})
	unstructured.RemoveNestedField(object.Object, "spec", "conversion")
	return unstructured.SetNestedSlice(object.Object, versions, "spec", "versions")
}

func replaceService(webhook map[string]any, host string, caBundle []byte) error {
	path, found, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
	if err != nil || !found {
		return fmt.Errorf("webhook without a service path: %w", err)
	}
	webhook["clientConfig"] = map[string]any{
		"url":      "https://" + host + path,
		"caBundle": base64.StdEncoding.EncodeToString(caBundle),
	}
	return nil
}

// readyz returns a probe of a manager's health address.
func readyz(port int) func(context.Context) error {
	return kubeserver.Probe("http://" + hostPort(port) + "/readyz")
}

func freePorts(count int) ([]int, error) {
	ports := make([]int, count)
	for i := range ports {
		var err error
		if ports[i], err = kubeserver.FreePort(loopback); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

func hostPort(port int) string { return kubeserver.HostPort(loopback, port) }

// InstallCore installs Cluster API's CRDs and webhooks again after a test has removed them. Call StartCore next.
func (s *Sandbox) InstallCore(ctx context.Context) error { return s.installCore(ctx) }

// StartCore runs Cluster API's manager again, after StopCore.
func (s *Sandbox) StartCore(ctx context.Context) error { return s.startCore(ctx) }

// StopCore ends Cluster API's manager with SIGTERM, as a Deployment would, and returns when it has ended.
func (s *Sandbox) StopCore() { s.core.Stop() }
