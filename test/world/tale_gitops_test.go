// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/gitops/health"
)

// tool applies manifests as a GitOps tool does.
type tool struct {
	title, manager string
	apply          func(context.Context, client.Client, *unstructured.Unstructured) error
}

// flux uses server-side apply with force. Before that, it applies as a dry run without force: a conflict would mean that another client has
// set a field of the manifest.
var flux = tool{title: "Flux", manager: "kustomize-controller", apply: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
	o.SetLabels(with(o.GetLabels(), "kustomize.toolkit.fluxcd.io/name", "clusters"))
	for _, option := range []client.ApplyOption{client.DryRunAll, client.ForceOwnership} {
		err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), option, client.FieldOwner("kustomize-controller"))
		if err != nil {
			return err
		}
	}
	return nil
}}

// argoCD applies as kubectl does, with a three-way merge patch of the last applied manifest, the new manifest and the object.
var argoCD = tool{title: "Argo CD", manager: "argocd-controller", apply: func(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
	const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	owner := client.FieldOwner("argocd-controller")
	o.SetAnnotations(with(o.GetAnnotations(), "argocd.argoproj.io/tracking-id", "clusters:"+o.GetKind()+"/"+o.GetName()))
	manifest, err := json.Marshal(o)
	if err != nil {
		return err
	}
	o.SetAnnotations(with(o.GetAnnotations(), lastApplied, string(manifest)))
	present := &unstructured.Unstructured{}
	present.SetGroupVersionKind(o.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), present); apierrors.IsNotFound(err) {
		return c.Create(ctx, o, owner)
	} else if err != nil {
		return err
	}
	modified, err := json.Marshal(o)
	if err != nil {
		return err
	}
	current, err := json.Marshal(present)
	if err != nil {
		return err
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(present.GetAnnotations()[lastApplied]), modified, current)
	if err != nil || string(patch) == "{}" {
		return err
	}
	return c.Patch(ctx, present, client.RawPatch(types.MergePatchType, patch), owner)
}}

func with(values map[string]string, key, value string) map[string]string {
	values = maps.Clone(values)
	if values == nil {
		values = map[string]string{}
	}
	values[key] = value
	return values
}

// gitops is a life in which a tool applies manifests all the time.
type gitops struct {
	*World
	tool      tool
	manifests []*unstructured.Unstructured
	applied   map[string]*unstructured.Unstructured // what the tool may prune
	rounds    int
	wrong     []string // applies that were refused, and fields that changed back or were lost
	seen      map[string]map[string][]string
	reasons   []string // for which health checks fail
	pages     health.Pages
}

// eachTool lives a life with the manifests of a flavor, once with each tool.
func eachTool(t *testing.T, live func(g *gitops), files ...string) {
	t.Helper()
	pages, err := health.ReadPages("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range []tool{flux, argoCD} {
		t.Run(tool.title, func(t *testing.T) {
			taleWith(t, Options{Portal: QuickPortal(), Topology: true}, func(w *World) {
				g := &gitops{World: w, tool: tool, pages: pages, reasons: pages.Reasons(), seen: map[string]map[string][]string{}}
				w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
				w.Create(NewManifest(0).Identity)
				for _, file := range files {
					g.manifests = append(g.manifests, w.flavor(file)...)
				}
				w.watching = append(w.watching, g.saw)
				live(g)
			})
		})
	}
}

// sync applies the manifests every 30 seconds until the test calls stop.
func (g *gitops) sync() (stop func()) {
	round := &chore{name: "GitOps", after: func() time.Duration { return 30 * time.Second }}
	round.do = func() {
		g.round()
		g.ask(round)
	}
	g.addChore(round)
	g.ask(round)
	return func() { g.removeChore(round) }
}

// round applies all manifests, and deletes the objects that are no longer in them. A deletion that fails is tried again in the next round.
func (g *gitops) round() {
	g.rounds++
	kept := map[string]*unstructured.Unstructured{}
	for _, o := range g.manifests {
		kept[id(o)] = o.DeepCopy()
		if err := g.tool.apply(context.Background(), g.client, o.DeepCopy()); err != nil {
			g.wrong = append(g.wrong, fmt.Sprintf("%s was refused: %v", id(o), err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.applied)) {
		if o := g.applied[name]; kept[name] == nil && client.IgnoreNotFound(g.client.Delete(context.Background(), o)) != nil {
			kept[name] = o
		}
	}
	g.applied = kept
}

func id(o client.Object) string { return o.GetObjectKind().GroupVersionKind().Kind + " " + o.GetName() }

// set commits a field of the manifest of the kind, or removes the field if the value is nil.
func (g *gitops) set(kind string, value any, path ...string) {
	g.Helper()
	i := slices.IndexFunc(g.manifests, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
	if value == nil {
		unstructured.RemoveNestedField(g.manifests[i].Object, path...)
		return
	}
	g.must(unstructured.SetNestedField(g.manifests[i].Object, value, path...))
}

// states are the results of the health checks.
func (g *gitops) states() (all []health.State) {
	for _, o := range g.objects("Cluster", "MachineDeployment", "PortalControlPlane") {
		all = append(all, health.Check(o, g.reasons))
	}
	return all
}

// arrived waits until every health check says that the last commit has arrived, and checks that it is in effect then. No health check fails in
// the meantime.
func (g *gitops) arrived(version string, workers int) {
	g.Helper()
	before := g.rounds
	g.Until("the commit has arrived", Patience, func() string {
		states := g.states()
		if g.rounds > before && slices.Contains(states, health.Failed) {
			g.Explain()
			g.Fatal("a health check fails")
		}
		if g.rounds > before && len(states) == 3 && !slices.Contains(states, health.InProgress) {
			return ""
		}
		return fmt.Sprint(g.rounds-before, " rounds, ", states)
	})
	machines := slices.DeleteFunc(g.Machines(), func(m *clusterv1.Machine) bool {
		return m.Spec.Version != version || !m.Status.NodeRef.IsDefined() || !m.DeletionTimestamp.IsZero()
	})
	Equal(g.World, "version of the control plane, Machines at it, all Machines",
		fmt.Sprint(read(g.World, theControl()).Status.Version, len(machines), len(g.Machines())), fmt.Sprint(version, workers, workers))
	Equal(g.World, "what is wrong", g.wrong, nil)
}

// idle checks that no object is written while the same manifests are applied again.
func (g *gitops) idle() {
	g.Helper()
	versions := func() map[string]string {
		all := map[string]string{}
		for _, o := range g.objects() {
			all[id(o)] = o.GetResourceVersion()
		}
		return all
	}
	g.Let(5 * time.Minute)
	before := versions()
	g.Let(10 * time.Minute)
	Equal(g.World, "resource versions", versions(), before)
}

// prune removes all manifests. The portal cluster and all objects are deleted. In the meantime health checks are in progress.
func (g *gitops) prune() {
	g.Helper()
	g.manifests = nil
	g.Until("all is pruned", Patience, func() string {
		for _, o := range g.objects("Cluster", "MachineDeployment", "PortalControlPlane") {
			if state := health.Check(o, g.reasons); o.GetDeletionTimestamp() != nil && state != health.InProgress {
				g.Fatalf("%s is %s while it is deleted", id(o), state)
			}
		}
		if left := g.objects(recorded...); len(left) > 0 {
			return id(left[0]) + " is left"
		}
		return g.Left()
	})
	Equal(g.World, "what is wrong", g.wrong, nil)
}

// TestGitOps lives with a tool that applies the flavor of the release all the time. The Cluster uses a PortalClusterIdentity and has a new
// network. Its workers are rolled out with another template, and then the autoscaler sets their number.
func TestGitOps(t *testing.T) {
	eachTool(t, func(g *gitops) {
		g.shareAccount()
		g.set("PortalCluster", "10.0.0.0/24", "spec", "network", "cidr")
		g.sync()
		g.arrived(oldestVersion, 1)
		g.idle()
		for _, replicas := range []int{3, 2} {
			g.set("MachineDeployment", int64(replicas), "spec", "replicas")
			g.arrived(oldestVersion, replicas)
		}
		g.set("PortalControlPlane", oldVersion, "spec", "version")
		g.set("MachineDeployment", oldVersion, "spec", "template", "spec", "version")
		g.arrived(oldVersion, 2)

		before := g.machineNames()
		g.set("PortalMachineTemplate", "workers-2", "metadata", "name")
		g.set("MachineDeployment", "workers-2", "spec", "template", "spec", "infrastructureRef", "name")
		g.Until("the Machines are replaced", Patience, func() string { // docs/gitops.md warns that core reports the rollout late
			old := slices.DeleteFunc(g.machineNames(), func(one string) bool { return !slices.Contains(before, one) })
			return strings.Join(old, ", ")
		})
		g.arrived(oldVersion, 2)
		Equal(g.World, "templates after pruning", len(g.objects("PortalMachineTemplate")), 1)

		g.set("MachineDeployment", nil, "spec", "replicas")
		g.set("MachineDeployment", "1", "metadata", "annotations", clusterv1.AutoscalerMinSizeAnnotation)
		g.set("MachineDeployment", "10", "metadata", "annotations", clusterv1.AutoscalerMaxSizeAnnotation)
		g.arrived(oldVersion, 2)
		md := &clusterv1.MachineDeployment{ObjectMeta: named(name + "-workers")}
		Edit(g.World, client.ObjectKeyFromObject(md), md, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(4)) })
		g.arrived(oldVersion, 4)
		g.idle()
		g.fieldsAreOwned("PortalCluster", "PortalControlPlane", "PortalMachineTemplate", "PortalMachine", "PortalClusterIdentity")
		g.prune()
	}, "cluster-template.yaml")
}

// shareAccount commits a PortalClusterIdentity, and a PortalCluster that uses it.
func (g *gitops) shareAccount() {
	g.Helper()
	secret := NewManifest(0).Identity
	secret.Namespace = identityNamespace
	g.Create(secret)
	identity := &unstructured.Unstructured{}
	identity.SetGroupVersionKind(infrav1.GroupVersion.WithKind("PortalClusterIdentity"))
	identity.SetName("shared")
	g.must(unstructured.SetNestedField(identity.Object, map[string]any{
		"secretRef":         map[string]any{"name": secret.Name},
		"allowedNamespaces": map[string]any{"list": []any{namespace}},
	}, "spec"))
	g.manifests = append(g.manifests, identity)
	g.set("PortalCluster", map[string]any{"kind": identity.GetKind(), "name": identity.GetName()}, "spec", "identityRef")
}

// TestGitOpsTopology lives so with a Cluster that has a ClusterClass.
func TestGitOpsTopology(t *testing.T) {
	eachTool(t, func(g *gitops) {
		g.sync()
		g.arrived(oldestVersion, 1)
		g.idle()
		path := []string{"spec", "topology", "workers", "machineDeployments"}
		cluster := g.manifests[slices.IndexFunc(g.manifests, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Cluster" })]
		workers, _, err := unstructured.NestedSlice(cluster.Object, path...)
		g.must(err)
		workers[0].(map[string]any)["replicas"] = int64(2)
		g.set("Cluster", workers, path...)
		g.arrived(oldestVersion, 2)
		g.set("Cluster", oldVersion, "spec", "topology", "version")
		g.arrived(oldVersion, 2)
		g.idle()
		g.fieldsAreOwned("PortalBootstrapConfig", "PortalClusterTemplate", "PortalControlPlaneTemplate", "PortalBootstrapConfigTemplate")
		g.prune()
	}, "clusterclass-portal.yaml", "cluster-template-topology.yaml")
}
