// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

// Release is a release of the provider for a test that installs one and then replaces it by another.
type Release struct {
	Version string
	Root    string // the checkout
	Manager string // path of its program
	Drops   bool   // Components has Dropped
}

// NeedReleases returns the previous release, as make previous has built it, and this one. root is the folder of this checkout. Without the previous
// one, or without the installer in bin, it says which target builds them, and ends the test's process.
func NeedReleases(root, installer, target string) (previous, current Release) {
	previous = Release{Version: "v0.1.0", Root: filepath.Join(root, "bin", "previous"), Manager: filepath.Join(root, "bin", "previous", "bin", "manager-built"), Drops: true}
	current = Release{Version: "v0.1.1", Root: root, Manager: filepath.Join(root, "bin", "manager")}
	for _, path := range []string{previous.Manager, filepath.Join(root, "bin", installer)} {
		if _, err := os.Stat(path); err != nil {
			fmt.Printf("skipped: %s is not built. Run %s.\n", filepath.Base(path), target)
			os.Exit(0)
		}
	}
	return previous, current
}

// InstallerOptions are those of a sandbox whose provider a test installs. Its portal is fast.
func InstallerOptions(accounts *Accounts) Options {
	options := sandbox.Options{WithoutProvider: true}
	options.Portal.Users = accounts.Users()
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: time.Second, Scale: time.Second, Upgrade: time.Second, Delete: time.Second,
	}
	return Options{Sandbox: options}
}

// Image returns the name of the release's image, which a Kubelet of the sandbox knows its program by.
func (r Release) Image() string {
	return "registry.example/capportal/cluster-api-provider-portal:" + r.Version
}

// Components returns infrastructure-components.yaml of the release.
func (f *Fixture) Components(r Release) string {
	f.Helper()
	components, err := f.Box.Components(f.Context(), r.Root, r.Image())
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(components).To(ContainSubstring("image: " + r.Image()))
	if r.Drops {
		components += Dropped
	}
	return components
}

// Dropped is a policy with its binding that a test adds to the components of the previous release, as if this release did not have it any more.
const Dropped = `---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: capportal-dropped
  labels: {cluster.x-k8s.io/provider: infrastructure-portal}
spec:
  matchConstraints:
    resourceRules:
      - {apiGroups: [infrastructure.cluster.x-k8s.io], apiVersions: ["*"], operations: [DELETE], resources: [portalclusteridentities]}
  validations:
    - {expression: "false"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: capportal-dropped
  labels: {cluster.x-k8s.io/provider: infrastructure-portal}
spec:
  policyName: capportal-dropped
  validationActions: [Deny]
`

// DroppedPolicies are the objects of Dropped, as Policies returns them.
func DroppedPolicies() []string {
	return []string{"ValidatingAdmissionPolicy capportal-dropped", "ValidatingAdmissionPolicyBinding capportal-dropped"}
}

// Resident is a Cluster with two workers that lives while the provider is replaced.
type Resident struct {
	*Fixture
	Objects
	machines []string
}

// NewResident creates the Cluster, and waits until it is ready.
func NewResident(f *Fixture) *Resident {
	f.Helper()
	const identity = "portal-identity"
	r := &Resident{Fixture: f, Objects: NewObjects(metav1.ObjectMeta{Namespace: f.Namespace, Name: f.ClusterName}, identity)}
	for _, o := range []client.Object{f.IdentitySecret(identity), r.Cluster, r.PortalCluster, r.ControlPlane, r.Bootstrap, r.Template, r.Deployment} {
		f.Create(o)
	}
	f.AwaitReady(r.Cluster, 2)
	r.machines = r.uids()
	return r
}

// Outlives checks that the Cluster is as before the provider was replaced, and that the new provider serves it: one more worker, and the request
// log of the portal has the creation once.
func (r *Resident) Outlives() {
	r.Helper()
	r.AwaitReady(r.Cluster, 2)
	r.Expect(r.uids()).To(Equal(r.machines), "Machines")
	r.Expect(r.Changes()).To(Equal([]string{"POST kubernetes-clusters 202"}), "requests that change something")
	Change(r.Fixture, r.Deployment, func(md *clusterv1.MachineDeployment) { *md.Spec.Replicas = 3 })
	r.AwaitReady(r.Cluster, 3)
	r.Expect(r.uids()).To(ContainElements(r.machines), "Machines")
	r.Expect(r.Changes()).To(Equal([]string{"POST kubernetes-clusters 202", "POST scale 202"}), "requests that change something")
}

// Remove deletes the Cluster, and waits until it is gone.
func (r *Resident) Remove() {
	r.Helper()
	r.Expect(r.Box.Client.Delete(r.Context(), r.Cluster)).To(Succeed())
	r.Eventually(r.Gone(r.Cluster)).Should(BeTrue(), "the Cluster is gone")
	r.Expect(r.PortalClusters()).To(BeEmpty(), "clusters of the portal")
}

func (r *Resident) uids() (all []string) {
	for _, m := range r.Machines() {
		all = append(all, m.Name+" "+string(m.UID))
	}
	slices.Sort(all)
	return all
}

// Policies returns the provider's admission policies and their bindings in the management cluster.
func (f *Fixture) Policies() (all []string) {
	f.Helper()
	for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(admissionregistrationv1.SchemeGroupVersion.WithKind(kind + "List"))
		f.Expect(f.Box.Client.List(f.Context(), list, client.MatchingLabels{clusterv1.ProviderNameLabel: "infrastructure-portal"})).To(Succeed())
		for _, o := range list.Items {
			all = append(all, kind+" "+o.GetName())
		}
	}
	slices.Sort(all)
	return all
}

// CRDs returns the provider's CRDs in the management cluster.
func (f *Fixture) CRDs() (all []string) {
	f.Helper()
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	f.Expect(f.Box.Client.List(f.Context(), list, client.MatchingLabels{clusterv1.ProviderNameLabel: "infrastructure-portal"})).To(Succeed())
	for _, crd := range list.Items {
		all = append(all, crd.Name+" "+string(crd.UID))
	}
	return all
}

// HasSpecsOf checks that each CRD, policy and binding of the release is in the management cluster as the release has it, with nothing of another
// release in its spec: replacing it by the release's own would change nothing. It returns the policies and bindings.
func (f *Fixture) HasSpecsOf(r Release) (policies []string) {
	f.Helper()
	objects, err := sandbox.Parse([]byte(f.Components(r)))
	f.Expect(err).NotTo(HaveOccurred())
	crds := 0
	for _, o := range objects {
		switch o.GroupVersionKind().Group {
		case apiextensionsv1.GroupName:
			crds++
		case admissionregistrationv1.GroupName:
			policies = append(policies, o.GetKind()+" "+o.GetName())
		default:
			continue
		}
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(o.GroupVersionKind())
		f.Eventually(func() error { // the installer may write at the same time
			if err := f.Box.Client.Get(f.Context(), client.ObjectKeyFromObject(o), found); err != nil {
				return StopTrying("the release is not installed").Wrap(err)
			}
			o.SetResourceVersion(found.GetResourceVersion())
			return f.Box.Client.Update(f.Context(), o, client.DryRunAll)
		}).Should(Succeed())
		f.Expect(found.Object["spec"]).To(Equal(o.Object["spec"]), "%s %s", o.GetKind(), o.GetName())
	}
	f.Expect(crds).To(BeNumerically(">", 5), "CRDs of the release")
	f.Expect(policies).NotTo(BeEmpty(), "policies of the release")
	slices.Sort(policies)
	return policies
}

// StartKubelet runs the managers of the releases as their Deployments say. Images in running are of programs that the sandbox already runs.
func (f *Fixture) StartKubelet(previous, current Release, running ...string) *sandbox.Kubelet {
	f.Helper()
	programs := map[string]string{previous.Image(): previous.Manager, current.Image(): current.Manager}
	for _, image := range running {
		programs[image] = sandbox.Runs
	}
	kubelet, err := f.Box.StartKubelet(f.Context(), programs)
	f.Expect(err).NotTo(HaveOccurred())
	f.Cleanup(kubelet.Close)
	f.Cleanup(func() {
		if f.Failed() {
			f.Log("the Kubelet's last error:", kubelet.Problem())
		}
	})
	return kubelet
}
