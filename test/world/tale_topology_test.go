// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// oldestVersion is two minor versions before newVersion.
const oldestVersion = "v1.34.9"

// topology is a life of a Cluster with the ClusterClass of the release.
type topology struct {
	*World
	cluster *clusterv1.Cluster
	class   []*unstructured.Unstructured // with its templates
	failed  func() []string              // failures that the topology controller has reported since it first succeeded
}

// topologyTale lives such a life, with a MachineDeployment for each number of replicas. Nothing is applied yet.
func topologyTale(t *testing.T, replicas []int32, live func(w *topology)) {
	t.Helper()
	taleWith(t, Options{Portal: QuickPortal(), Topology: true}, func(w *World) {
		one := &topology{World: w, cluster: theCluster(), class: w.flavor("clusterclass-portal.yaml")}
		w.must(runtime.DefaultUnstructuredConverter.FromUnstructured(w.flavor("cluster-template-topology.yaml")[0].Object, one.cluster))
		all := &one.cluster.Spec.Topology.Workers.MachineDeployments
		first := (*all)[0]
		*all = nil
		for i, n := range replicas {
			md := *first.DeepCopy()
			md.Name, md.Replicas = fmt.Sprint("workers-", i), &n
			*all = append(*all, md)
		}
		live(one)
	})
}

var variable = regexp.MustCompile(`\$\{(\w+)(?::=([^}]*))?\}`)

// flavor returns the objects of a file of the release, as clusterctl renders it.
func (w *World) flavor(file string) (objects []*unstructured.Unstructured) {
	w.Helper()
	content, err := os.ReadFile("../../templates/" + file)
	w.must(err)
	values := map[string]string{
		"CLUSTER_NAME": name, "NAMESPACE": namespace, "KUBERNETES_VERSION": oldestVersion, "PORTAL_IDENTITY": "identity", "WORKER_MACHINE_COUNT": "1",
		"PORTAL_ZONE_ID": "zone-1", "PORTAL_VPC": "default", "PORTAL_SERVICE_OFFERING_ID": "small", "PORTAL_SSH_KEY_PAIR": "ops",
		"PORTAL_CSI_PROVISIONER": "csi.example", "PORTAL_DISK_OFFERING_ID": "disk",
	}
	text := variable.ReplaceAllStringFunc(string(content), func(one string) string {
		parts := variable.FindStringSubmatch(one)
		if value, set := values[parts[1]]; set {
			return value
		}
		return parts[2]
	})
	for document := range strings.SplitSeq(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		w.must(yaml.Unmarshal([]byte(document), o))
		o.SetNamespace(namespace)
		objects = append(objects, o)
	}
	return objects
}

// apply creates the objects.
func (w *topology) apply() {
	w.Helper()
	w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	w.Create(NewManifest(0).Identity)
	for _, o := range w.class {
		w.Create(o)
	}
	w.Create(w.cluster)
}

// change edits the Cluster.
func (w *topology) change(change func(c *clusterv1.Cluster)) {
	w.Helper()
	Edit(w.World, key, w.cluster, change)
}

func (w *topology) scale(i int, replicas int32) {
	w.Helper()
	w.change(func(c *clusterv1.Cluster) { c.Spec.Topology.Workers.MachineDeployments[i].Replicas = &replicas })
}

func (w *topology) upgrade(version string) {
	w.Helper()
	w.change(func(c *clusterv1.Cluster) { c.Spec.Topology.Version = version })
}

// settle waits until the topology is reconciled, with so many workers of the version of the Cluster. The topology controller has not failed.
func (w *topology) settle(workers int) {
	w.Helper()
	version := read(w.World, w.cluster).Spec.Topology.Version
	w.See(w.cluster, clusterv1.ClusterTopologyReconciledCondition, "True")
	if w.failed == nil { // it may fail until it has seen all that was applied
		noted := w.noteReasons(clusterv1.ClusterTopologyReconciledFailedReason)
		w.failed = func() []string {
			return slices.DeleteFunc(noted(), func(one string) bool { return strings.Contains(one, "ClusterClass is not successfully reconciled") })
		}
	}
	w.Until("all Machines have version "+version, Patience, func() string {
		machines := slices.DeleteFunc(w.Machines(), func(m *clusterv1.Machine) bool { return m.Spec.Version != version })
		return diff(fmt.Sprint(len(machines), " of ", len(w.Machines())), fmt.Sprint(workers, " of ", workers))
	})
	w.Settle(workers)
	Equal(w.World, "failures of the topology controller", w.failed(), nil)
}

// made are the objects that the topology controller has created for the Cluster.
func (w *topology) made() []*unstructured.Unstructured {
	all := w.objects("PortalCluster", "PortalControlPlane", "PortalMachineTemplate", "PortalBootstrapConfigTemplate", "MachineDeployment")
	return slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return o.GetLabels()[clusterv1.ClusterNameLabel] != name })
}

// steady makes the topology controller compare all objects again, which it does only with those that have changed, and checks that it
// changes none of them.
func (w *topology) steady() {
	w.Helper()
	shape := func() (all []string) {
		for _, o := range w.made() {
			annotations := o.GetAnnotations()
			delete(annotations, "touched")
			all = append(all, fmt.Sprint(o.GetKind(), o.GetName(), o.GetGeneration(), o.GetLabels(), annotations))
		}
		return all
	}
	before := shape()
	for _, o := range w.made() {
		touched := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":%q}}}`, time.Now()))
		w.must(w.client.Patch(context.Background(), o.DeepCopy(), touched))
	}
	w.Let(20 * time.Minute)
	Equal(w.World, "objects of the topology controller", shape(), before)
}

// set sets a variable of the Cluster.
func (w *topology) set(variable, value string) {
	w.Helper()
	w.change(func(c *clusterv1.Cluster) {
		variables := slices.DeleteFunc(c.Spec.Topology.Variables, func(v clusterv1.ClusterVariable) bool { return v.Name == variable })
		c.Spec.Topology.Variables = append(variables, clusterv1.ClusterVariable{
			Name: variable, Value: apiextensionsv1.JSON{Raw: fmt.Appendf(nil, "%q", value)},
		})
	})
}

// refuseDeployments has the API server refuse new MachineDeployments until the test calls allow.
func (w *topology) refuseDeployments() (allow func()) {
	const path = "/validate-cluster-x-k8s-io-v1beta2-machinedeployment"
	before := w.management.webhooks[path]
	w.management.webhooks[path] = &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		return admission.Denied("not now")
	})}
	return func() { w.management.webhooks[path] = before }
}

// TestTopology keeps the topology controller from creating MachineDeployments at first. The provider creates the portal cluster with all
// workers of the topology, and keeps them. Then the user sets a field of an object that core has made, scales, upgrades, and deletes the
// Cluster. The portal is asked only for that, and the topology controller finds nothing to change.
func TestTopology(t *testing.T) {
	topologyTale(t, []int32{2, 1}, func(w *topology) {
		allow := w.refuseDeployments()
		w.apply()
		w.See(theControl(), infrav1.ProvisionedCondition, "False "+infrav1.WaitingForObjectReason, "workers-0, workers-1")
		asked := read(w.World, theControl()).CreationTimestamp
		w.Until("the portal has the cluster", Patience, func() string { return diff(fmt.Sprint(w.size()), "3") })
		if waited := time.Since(asked.Time); waited < time.Minute {
			t.Errorf("the provider waited only %s for MachineDeployments", waited)
		}
		allow()
		w.settle(3)
		nodes := w.uids()
		w.Asked("create")
		Edit(w.World, key, theControl(), func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = infrav1.DeletionPolicyDelete })
		w.set("removalOrder", "Newest")
		w.Until("the order is set", Patience, func() string {
			return diff(string(read(w.World, theControl()).Status.RemovalOrder.Source), string(infrav1.RemovalOrderSet))
		})
		w.steady()
		Equal(w.World, "policy, which core keeps", read(w.World, theControl()).Spec.DeletionPolicy, infrav1.DeletionPolicyDelete)
		w.scale(0, 3)
		w.settle(4)
		w.scale(0, 2)
		w.settle(3)
		w.upgrade(oldVersion)
		w.settle(3)
		w.steady()
		Equal(w.World, "worker Nodes", w.uids(), nodes)
		w.Asked("create", "scale", "scale", "upgrade")
		w.Delete(w.cluster)
		w.Gone(w.cluster)
		Equal(w.World, "what the topology controller has made", len(w.made()), 0)
		w.Asked("create", "scale", "scale", "upgrade", "delete")
	})
}

// TestTopologyTemplates changes the templates of the ClusterClass in two ways that must not change anything at the portal. Then it asks for
// other workers than the portal cluster was created with, and for the same as before.
func TestTopologyTemplates(t *testing.T) {
	topologyTale(t, []int32{2}, func(w *topology) {
		w.apply()
		w.settle(2)
		nodes, machines, template := w.uids(), w.machineNames(), w.template()
		w.useTemplates("renamed", nil)
		w.Until("the template has another source", Patience, func() string {
			return diff(w.template().Annotations[clusterv1.TemplateClonedFromNameAnnotation], "renamed")
		})
		w.settle(2)
		Equal(w.World, "Machines and template", fmt.Sprint(w.machineNames(), w.template().Name), fmt.Sprint(machines, template.Name))

		w.useTemplates("labelled", map[string]string{"tier": "gold"})
		w.Gone(template)
		w.settle(2)
		Equal(w.World, "what the template says", w.template().Spec.Template.Spec, template.Spec.Template.Spec)
		for _, m := range w.Machines() {
			claim := read(w.World, &infrav1.PortalMachine{ObjectMeta: named(m.Spec.InfrastructureRef.Name)})
			if slices.Contains(machines, m.Name) || claim.Labels["tier"] != "gold" {
				t.Errorf("Machine %s stays, or has a PortalMachine with labels %v", m.Name, claim.Labels)
			}
		}
		w.steady()
		template = w.template()
		w.set("serviceOfferingID", "large")
		w.See(w.cluster, clusterv1.ClusterTopologyReconciledCondition, "False "+clusterv1.ClusterTopologyReconciledFailedReason, "workers cannot be changed")
		w.set("serviceOfferingID", "small")
		w.failed = func() []string { return nil }
		w.settle(2)
		Equal(w.World, "template", w.template().Name, template.Name)
		Equal(w.World, "worker Nodes", w.uids(), nodes)
		w.Asked("create")
	})
}

// useTemplates has the ClusterClass use copies of its templates of workers, with other labels.
func (w *topology) useTemplates(copies string, labels map[string]string) {
	w.Helper()
	for _, o := range w.flavor("clusterclass-portal.yaml") {
		if kind := o.GetKind(); kind == "PortalMachineTemplate" || kind == "PortalBootstrapConfigTemplate" {
			o.SetName(copies)
			if labels != nil {
				w.must(unstructured.SetNestedStringMap(o.Object, labels, "spec", "template", "metadata", "labels"))
			}
			w.Create(o)
		}
	}
	class := &clusterv1.ClusterClass{}
	Edit(w.World, client.ObjectKey{Namespace: namespace, Name: "portal"}, class, func(c *clusterv1.ClusterClass) {
		c.Spec.Workers.MachineDeployments[0].Infrastructure.TemplateRef.Name = copies
		c.Spec.Workers.MachineDeployments[0].Bootstrap.TemplateRef.Name = copies
	})
}

// deployment is the only MachineDeployment, and template the PortalMachineTemplate that it names.
func (w *topology) deployment() *clusterv1.MachineDeployment {
	w.Helper()
	all := list[clusterv1.MachineDeployment](w.World, w.management, schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "machinedeployments"})
	Equal(w.World, "MachineDeployments", len(all), 1)
	return all[0]
}

func (w *topology) template() *infrav1.PortalMachineTemplate {
	w.Helper()
	return read(w.World, &infrav1.PortalMachineTemplate{ObjectMeta: named(w.deployment().Spec.Template.Spec.InfrastructureRef.Name)})
}

// TestTopologyTakeover makes a Cluster again whose portal cluster was kept, as docs/restore.md describes for a ClusterClass: the control plane is
// paused until it has the id. The provider takes the portal cluster over with its nodes. Core keeps the id.
func TestTopologyTakeover(t *testing.T) {
	topologyTale(t, []int32{2}, func(w *topology) {
		again := w.cluster.DeepCopy()
		w.apply()
		w.settle(2)
		nodes, id := w.uids(), w.Portal.Clusters()[0].ID
		Edit(w.World, key, theControl(), func(cp *infrav1.PortalControlPlane) { cp.Spec.DeletionPolicy = infrav1.DeletionPolicyRetain })
		w.Delete(w.cluster)
		w.Gone(w.cluster)
		w.cluster = again
		w.cluster.Spec.Topology.ControlPlane.Metadata.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		w.Create(w.cluster)
		w.See(theControl(), clusterv1.PausedCondition, "True")
		w.Let(time.Hour)
		Edit(w.World, key, theControl(), func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = id })
		w.change(func(c *clusterv1.Cluster) { c.Spec.Topology.ControlPlane.Metadata.Annotations = nil })
		w.settle(2)
		w.steady()
		Equal(w.World, "id and nodes", fmt.Sprint(read(w.World, theControl()).Spec.ClusterID, w.uids()), fmt.Sprint(id, nodes))
		w.scale(0, 3)
		w.settle(3)
		w.Asked("create", "scale")
	})
}
