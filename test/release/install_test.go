// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// install installs the release as a user does, but offline: clusterctl init takes the provider and Cluster API from folders. Then it starts
// core's manager, because its webhooks judge the flavors too. The manager is no Pod, so the webhooks get its URL instead of its Service.
func install(ctx context.Context, scratch string) error {
	if err := provideCertManager(ctx); err != nil {
		return err
	}
	if _, problems, err := runClusterctl(ctx, scratch, nil, "init",
		"--core", "cluster-api:"+coreVersion, "--infrastructure", "portal:"+releaseVersion, "--bootstrap", "-", "--control-plane", "-"); err != nil {
		return fmt.Errorf("clusterctl init: %w\n%s", err, problems)
	}
	for _, webhooks := range []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{},
	} {
		if err := box.Client.DeleteAllOf(ctx, webhooks); err != nil {
			return err
		}
	}
	if err := box.InstallCore(ctx); err != nil {
		return err
	}
	return box.StartCore(ctx)
}

// TestInstall checks that clusterctl init has installed all objects of the release, and that the manager becomes leader with the rights of its
// account.
func TestInstall(t *testing.T) {
	g := suite.Patient(t)
	admin := box.Client
	recorded := &unstructured.Unstructured{}
	recorded.SetGroupVersionKind(clusterctlv1.GroupVersion.WithKind("Provider"))
	g.Expect(admin.Get(t.Context(), client.ObjectKey{Namespace: home, Name: "infrastructure-portal"}, recorded)).To(Succeed())
	g.Expect(recorded.Object).To(HaveKeyWithValue("version", releaseVersion))
	installed := components(t)
	for _, object := range installed {
		g.Expect(admin.Get(t.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed(), object.GetKind())
	}
	g.Expect(admin.List(t.Context(), &infrav1.PortalControlPlaneList{})).To(Succeed())
	pod := deploymentOf(t, installed).Spec.Template.Spec

	port, err := kubeserver.FreePort("127.0.0.1")
	g.Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := box.KubeconfigOf("system:serviceaccount:"+home+":"+pod.ServiceAccountName, "system:serviceaccounts", "system:serviceaccounts:"+home)
	g.Expect(err).NotTo(HaveOccurred())
	health := kubeserver.HostPort("127.0.0.1", port)
	started, err := kubeserver.Start(t.Context(), kubeserver.Spec{
		Name: "manager", Path: managerProgram(t),
		Args:  append(pod.Containers[0].Args, "--leader-elect-namespace="+home, "--health-addr="+health, "--diagnostics-address=127.0.0.1:0"),
		Env:   []string{"KUBECONFIG=" + kubeconfig, "POD_NAMESPACE=" + home},
		Log:   filepath.Join(t.TempDir(), "manager.log"),
		Ready: kubeserver.Probe("http://" + health + "/readyz"),
	})
	g.Expect(err).NotTo(HaveOccurred())
	defer started.Stop()
	leases := &coordinationv1.LeaseList{}
	g.Eventually(func(g Gomega) {
		g.Expect(admin.List(t.Context(), leases, client.InNamespace(home))).To(Succeed())
		g.Expect(leases.Items).To(HaveLen(1), "the manager did not become leader")
	}).Should(Succeed())
}

// managerProgram returns the manager that make build has built, or at night the one in the released image.
func managerProgram(t *testing.T) string {
	t.Helper()
	if !suite.AtNight() {
		return box.Binary("manager")
	}
	inImage := load(t, "manager-image-linux-"+runtime.GOARCH+".tar")
	return filepath.Join(inImage.files, inImage.Config.Entrypoint[0])
}

// provideCertManager adds the two kinds of cert-manager that Cluster API's release has objects of. The configuration of clusterctl says that
// cert-manager is there. No Pods run here, so nothing needs its certificates.
func provideCertManager(ctx context.Context) error {
	for kind, plural := range map[string]string{"Issuer": "issuers", "Certificate": "certificates"} {
		if err := box.Client.Create(ctx, &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: plural + ".cert-manager.io"},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: "cert-manager.io", Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: ptr.To(true),
					}},
				}},
			},
		}); err != nil {
			return err
		}
	}
	return nil
}

// loaded is an image's archive, unpacked.
type loaded struct {
	Name, Architecture string
	Config             struct {
		User       string
		Entrypoint []string
		Labels     map[string]string
	}
	files string // folder of the files in the image
}

// load unpacks an image's archive of the release, as docker load would.
func load(t *testing.T, file string) loaded {
	t.Helper()
	g := NewWithT(t)
	archive := t.TempDir()
	g.Expect(exec.CommandContext(t.Context(), "tar", "-xf", filepath.Join(dir, file), "-C", archive).Run()).To(Succeed())
	read := func(name string, into any) {
		raw, err := os.ReadFile(filepath.Join(archive, name))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(json.Unmarshal(raw, into)).To(Succeed())
	}
	var images []struct {
		Config           string
		RepoTags, Layers []string
	}
	read("manifest.json", &images)
	g.Expect(images).To(HaveLen(1))
	g.Expect(images[0].RepoTags).To(HaveLen(1))
	g.Expect(images[0].Layers).To(HaveLen(1))
	l := loaded{Name: images[0].RepoTags[0], files: t.TempDir()}
	read(images[0].Config, &l)
	g.Expect(exec.CommandContext(t.Context(), "tar", "-xf", filepath.Join(archive, images[0].Layers[0]), "-C", l.files).Run()).To(Succeed())
	return l
}
