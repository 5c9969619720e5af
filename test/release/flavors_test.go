// SPDX-License-Identifier: Apache-2.0

package release

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const namespace = "default"

// everywhere holds the variables that every flavor needs.
var everywhere = map[string]string{
	"KUBERNETES_VERSION":         "v1.36.3",
	"PORTAL_ZONE_ID":             "a-zone",
	"PORTAL_VPC":                 "a-vpc",
	"PORTAL_SERVICE_OFFERING_ID": "an-offering",
	"PORTAL_SSH_KEY_PAIR":        "a-key-pair",
}

// flavors maps each flavor of the release to the additional variables that it needs.
var flavors = map[string]map[string]string{
	"":                 {},
	"existing-network": {"PORTAL_NETWORK_ID": "a-network"},
	"machinepool":      {},
	"storage":          {"PORTAL_CSI_PROVISIONER": "platform.csi.driver", "PORTAL_DISK_OFFERING_ID": "a-disk-offering"},
	"topology":         {},
}

func needed(flavor string) map[string]string {
	all := maps.Clone(everywhere)
	maps.Copy(all, flavors[flavor])
	return all
}

func with(variables map[string]string, name, value string) map[string]string {
	changed := maps.Clone(variables)
	changed[name] = value
	return changed
}

// TestFlavors checks that the API server would accept all objects of every flavor, and that this test knows all flavors.
func TestFlavors(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(dir, "cluster-template*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, file := range files {
		name := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(file), ".yaml"), "cluster-template")
		names = append(names, strings.TrimPrefix(name, "-"))
	}
	g.Expect(names).To(ConsistOf(slices.Collect(maps.Keys(flavors))))

	for _, flavor := range names {
		t.Run("flavor "+flavor, func(t *testing.T) {
			g := NewWithT(t)
			objects := rendered(t, flavor, needed(flavor))
			installClass(t, objects)
			for _, object := range objects {
				g.Expect(object.GetNamespace()).To(Equal(namespace), "%s %s", object.GetKind(), object.GetName())
				g.Expect(dryRun(t, object)).To(Succeed())
			}
		})
	}
}

// TestRefused checks that the API server refuses invalid objects, so that TestFlavors can fail.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ flavor, variable, value, refusal string }{
		{"", "KUBERNETES_VERSION", "1.36.3", "version must be a semantic version with a leading v"},
		{"existing-network", "PORTAL_VPC_BY", "label", "label"},
		{"storage", "PORTAL_IDENTITY", strings.Repeat("x", 254), "identityRef.name"},
		{"", "PORTAL_IDENTITY_KIND", "ConfigMap", "identityRef.kind"},
		{"topology", "PORTAL_ZONE_ID", strings.Repeat("x", 257), "zoneID"},
	} {
		t.Run(c.variable, func(t *testing.T) {
			g := NewWithT(t)
			objects := rendered(t, c.flavor, with(needed(c.flavor), c.variable, c.value))
			installClass(t, objects)
			var refusals []string
			for _, object := range objects {
				if err := dryRun(t, object); err != nil {
					refusals = append(refusals, err.Error())
				}
			}
			g.Expect(strings.Join(refusals, "\n")).To(ContainSubstring(c.refusal))
		})
	}
}

// dryRun does what kubectl apply --server-side --dry-run=server would do. Unknown fields are errors.
func dryRun(t *testing.T, object *unstructured.Unstructured) error {
	t.Helper()
	return box.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()),
		client.FieldOwner("test"), client.ForceOwnership, client.DryRunAll)
}

// installClass creates the ClusterClass of a flavor, so that core validates the variables of its Cluster.
func installClass(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	g := suite.Patient(t)
	name := ""
	for _, object := range objects {
		if object.GetKind() == "ClusterClass" {
			name = object.GetName()
		}
	}
	if name == "" {
		return
	}
	for _, object := range objects {
		if object.GetKind() != "Cluster" {
			g.Expect(box.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("test"))).To(Succeed())
		}
	}
	class := &clusterv1.ClusterClass{}
	g.Eventually(func(g Gomega) {
		g.Expect(box.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, class)).To(Succeed())
		g.Expect(class.Status.ObservedGeneration).To(Equal(class.Generation))
		g.Expect(conditions.IsTrue(class, clusterv1.ClusterClassVariablesReadyCondition)).To(BeTrue(), "%v", class.Status.Conditions)
	}).Should(Succeed())
}

func TestExistingNetwork(t *testing.T) {
	for by, vpc := range map[string]infrav1.PortalVPC{"": {Name: "a-vpc"}, "name": {Name: "a-vpc"}, "id": {ID: "a-vpc"}} {
		t.Run("VPC by "+by, func(t *testing.T) {
			g := NewWithT(t)
			cluster := &infrav1.PortalCluster{}
			object := one(t, rendered(t, "existing-network", with(needed("existing-network"), "PORTAL_VPC_BY", by)), "PortalCluster")
			convert(t, object, cluster)
			g.Expect(cluster.Spec.VPC).To(Equal(vpc))
			g.Expect(cluster.Spec.Network).To(HaveValue(Equal(infrav1.PortalNetwork{ID: "a-network"})))
			g.Expect(dryRun(t, object)).To(Succeed())
		})
	}
}

// TestStorage checks that the workload cluster gets the StorageClass of the specification and accepts it.
func TestStorage(t *testing.T) {
	g := NewWithT(t)
	objects := rendered(t, "storage", needed("storage"))
	content, _, err := unstructured.NestedString(one(t, objects, "ConfigMap").Object, "data", "storageclass.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	class := &storagev1.StorageClass{}
	g.Expect(yaml.UnmarshalStrict([]byte(content), class)).To(Succeed())
	g.Expect(class.Name).To(Equal("portal"))
	g.Expect(class.Provisioner).To(Equal("platform.csi.driver"))
	g.Expect(class.Parameters).To(Equal(map[string]string{"diskOfferingId": "a-disk-offering", "zoneId": "a-zone"}))
	g.Expect(class.ReclaimPolicy).To(HaveValue(BeEquivalentTo("Retain")))
	g.Expect(dryRun(t, parse(t, content)[0])).To(Succeed())

	selector, _, err := unstructured.NestedStringMap(one(t, objects, "ClusterResourceSet").Object, "spec", "clusterSelector", "matchLabels")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(selector).NotTo(BeEmpty())
	for key, value := range selector {
		g.Expect(one(t, objects, "Cluster").GetLabels()).To(HaveKeyWithValue(key, value))
		g.Expect(value).To(Equal("a-cluster"), "other clusters of the namespace have StorageClasses of their own")
	}
}

var fence = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// TestFlavorsPage checks that docs/flavors.md has a section for each flavor, with the variables and defaults that clusterctl lists, and
// that an API server accepts the page's manifests.
func TestFlavorsPage(t *testing.T) {
	g := NewWithT(t)
	page := source(t, "docs/flavors.md")
	for flavor := range flavors {
		heading := flavor
		if flavor == "" {
			heading = "default"
		}
		_, rest, found := strings.Cut(page, "\n## "+heading+"\n")
		g.Expect(found).To(BeTrue(), "docs/flavors.md has no section %q", heading)
		section, _, _ := strings.Cut(rest, "\n## ")
		rows := page[:strings.Index(page, "\n## default\n")] + section // the common variables come first
		out, problems, err := generate(t, flavor, nil, "--list-variables")
		g.Expect(err).NotTo(HaveOccurred(), problems)
		listed := regexp.MustCompile(`(?m)^  - ([A-Z_]+)(?: +\(defaults to (?:"(.*)"|.*)\))?$`).FindAllStringSubmatch(out, -1)
		g.Expect(len(listed)).To(BeNumerically(">=", 9), out)
		for _, variable := range listed {
			row := regexp.MustCompile("(?m)^\\| `" + variable[1] + "` \\|.*$").FindString(rows)
			g.Expect(row).NotTo(BeEmpty(), "docs/flavors.md does not explain the variable %s of flavor %q", variable[1], flavor)
			if variable[2] != "" { // a default of the template: those of clusterctl have no quotes
				g.Expect(row).To(ContainSubstring("`"+variable[2]+"`"), "default of %s", variable[1])
			}
		}
	}
	manifests := fence.FindAllStringSubmatch(page, -1)
	g.Expect(manifests).NotTo(BeEmpty())
	for _, manifest := range manifests {
		for _, object := range parse(t, manifest[1]) {
			if object.GetNamespace() == "" {
				object.SetNamespace(namespace)
			}
			g.Expect(dryRun(t, object)).To(Succeed())
		}
	}
}

// TestMissingVariables checks that clusterctl names the variables without a default if they are missing.
func TestMissingVariables(t *testing.T) {
	for flavor := range flavors {
		g := NewWithT(t)
		_, problems, err := generate(t, flavor, nil)
		g.Expect(err).To(HaveOccurred())
		named := regexp.MustCompile(`[A-Z]+(_[A-Z]+)+`).FindAllString(problems, -1)
		g.Expect(slices.Compact(slices.Sorted(slices.Values(named)))).To(ConsistOf(slices.Collect(maps.Keys(needed(flavor)))), problems)
	}
}

// TestDeletionProtection checks that one variable protects both the Cluster and the control plane, and that neither is protected by
// default.
func TestDeletionProtection(t *testing.T) {
	for flavor := range flavors {
		for value, variables := range map[string]map[string]string{"false": needed(flavor), "true": with(needed(flavor), "DELETION_PROTECTION", "true")} {
			g := NewWithT(t)
			objects, protected := rendered(t, flavor, variables), HaveKeyWithValue(infrav1.DeletionProtectionAnnotation, value)
			cluster := &clusterv1.Cluster{}
			convert(t, one(t, objects, "Cluster"), cluster)
			g.Expect(cluster.Annotations).To(protected, flavor)
			if flavor == "topology" {
				g.Expect(cluster.Spec.Topology.ControlPlane.Metadata.Annotations).To(protected)
			} else {
				g.Expect(one(t, objects, "PortalControlPlane").GetAnnotations()).To(protected, flavor)
			}
		}
	}
}
