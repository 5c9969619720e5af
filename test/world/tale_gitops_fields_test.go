// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/gitops/health"
)

// optional are fields of a PortalControlPlane. Some of them have defaults, or the provider fills them in.
var optional = map[string]any{
	"clusterName":          "chosen",
	"description":          "from Git",
	"deletionPolicy":       "Delete",
	"removalOrder":         "Newest",
	"controlPlaneEndpoint": map[string]any{"host": "api.chosen.example", "port": int64(443)},
	"workers":              map[string]any{"serviceOfferingID": "small", "sshKeyPair": "ops"},
}

// TestGitOpsKeepsFields commits all of these fields, which stay. The first commit has a version that the portal does not offer, and the job of
// the first creation fails. In the end a person removes the Cluster by force and deletes its PortalControlPlane: the provider holds the deletion
// until the person confirms it. Health checks fail as long as a person has to act.
func TestGitOpsKeepsFields(t *testing.T) {
	eachTool(t, func(g *gitops) {
		g.Strike(emulator.Fault{ID: "full", Path: createRoute, Job: emulator.JobFails, JobCode: emulator.CodeInsufficientCapacity, Count: 1})
		for field, value := range optional {
			g.set("PortalControlPlane", value, "spec", field)
		}
		g.set("PortalControlPlane", "v1.99.0", "spec", "version")
		stop := g.sync()
		fails := func() {
			g.Helper()
			g.Until("the health check fails", Patience, func() string {
				for _, o := range g.objects("PortalControlPlane") {
					return diff(string(health.Check(o, g.reasons)), string(health.Failed))
				}
				return "there is no PortalControlPlane"
			})
		}
		fails()
		g.set("PortalControlPlane", oldestVersion, "spec", "version")
		g.arrived(oldestVersion, 1)
		g.set("MachineDeployment", int64(2), "spec", "replicas")
		g.arrived(oldestVersion, 2)
		g.idle()
		for field, value := range optional {
			got, _, _ := unstructured.NestedFieldNoCopy(g.objects("PortalControlPlane")[0].Object, "spec", field)
			Equal(g.World, field, got, value)
		}
		Equal(g.World, "name of the portal cluster", g.Portal.Clusters()[0].Name, "chosen")

		stop()
		Edit(g.World, key, theCluster(), func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
		g.Delete(theCluster())
		Edit(g.World, key, theCluster(), func(c *clusterv1.Cluster) { c.Finalizers = nil })
		g.Delete(theControl())
		fails()
		Edit(g.World, key, theControl(), func(cp *infrav1.PortalControlPlane) {
			cp.Annotations[infrav1.DecisionAnnotation] = infrav1.DecisionDelete.About(cp.Spec.ClusterID)
		})
		g.Until("the portal cluster is gone", Patience, func() string { return diff(fmt.Sprint(len(g.Portal.Clusters())), "0") })
	}, "cluster-template.yaml")
}

// recorded are the kinds whose fields must not change back and forth.
var recorded = []string{
	"Cluster", "ClusterClass", "MachineDeployment", "PortalCluster", "PortalControlPlane", "PortalMachineTemplate", "PortalClusterTemplate",
	"PortalControlPlaneTemplate", "PortalBootstrapConfigTemplate",
}

// saw notes fields that are removed, and those that return to an earlier value.
func (g *gitops) saw(c change) {
	o := c.new
	if o == nil || o.GetDeletionTimestamp() != nil || !slices.Contains(recorded, o.GetKind()) {
		return
	}
	seen, fields := g.seen[string(o.GetUID())], fieldsOf(o)
	if seen == nil {
		seen = map[string][]string{}
		g.seen[string(o.GetUID())] = seen
	}
	for field := range seen {
		if _, here := fields[field]; !here {
			g.wrong = append(g.wrong, fmt.Sprintf("%s lost %s", id(o), field))
		}
	}
	for field, value := range fields {
		switch i := slices.Index(seen[field], value); {
		case i < 0:
			seen[field] = append(seen[field], value)
		case i < len(seen[field])-1:
			g.wrong = append(g.wrong, fmt.Sprintf("%s: %s is %q again", id(o), field, value))
		}
	}
}

// fieldsOf flattens spec and metadata. It leaves out the values of the provider's annotations, which only the provider reads, and the annotation
// that keeps clusterctl from moving an object while an operation runs. It also leaves out three fields that core's topology controller sets and
// removes without GitOps too: its finalizer of a MachineDeployment, a Secret as the owner of a new control plane, and internal annotations
// during an upgrade.
func fieldsOf(o *unstructured.Unstructured) map[string]string {
	fields := map[string]string{}
	flatten(fields, "spec", o.Object["spec"])
	for _, finalizer := range o.GetFinalizers() {
		if strings.Contains(finalizer, infrav1.GroupVersion.Group) {
			fields["finalizer "+finalizer] = "set"
		}
	}
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind != "Secret" {
			fields["owner "+owner.Kind] = owner.Name
		}
	}
	for key, value := range o.GetLabels() {
		fields["label "+key] = value
	}
	for key, value := range o.GetAnnotations() {
		if key == clusterctlv1.BlockMoveAnnotation || strings.HasPrefix(key, "topology.internal.cluster.x-k8s.io/") {
			continue
		}
		if strings.HasPrefix(key, ours) {
			value = "set"
		}
		fields["annotation "+key] = value
	}
	return fields
}

// ours is the prefix of the provider's annotations.
const ours = "infrastructure.cluster.x-k8s.io/portal-"

func flatten(into map[string]string, path string, value any) {
	if fields, ok := value.(map[string]any); ok {
		for key, inner := range fields {
			flatten(into, path+"."+key, inner)
		}
		return
	}
	into[path] = fmt.Sprint(value)
}

// fieldsAreOwned compares the field managers of the provider's kinds with the table of docs/reference.md. Of the kinds that are complete, it also
// checks that every entry of the table is true.
func (g *gitops) fieldsAreOwned(complete ...string) {
	g.Helper()
	table, err := g.pages.Fields()
	g.must(err)
	for kind, row := range table {
		managed := map[string]bool{}
		stored, _ := g.management.store.list("/")
		for _, o := range stored {
			for _, entry := range o.GetManagedFields() {
				if o.GetKind() == kind {
					for _, field := range g.fieldsIn(entry.FieldsV1.GetRawBytes()) {
						managed[g.owner(entry.Manager)+" "+field] = true
					}
				}
			}
		}
		allowed := map[string][]string{
			"user":     slices.Concat(row.User, row.Filled, []string{"labels", "annotations", "ownerReferences"}),
			"provider": slices.Concat(row.Provider, row.Filled),
			"core":     slices.Concat(row.Core, []string{"labels", "annotations"}),
		}
		for entry := range managed {
			who, field, _ := strings.Cut(entry, " ")
			if !slices.Contains(allowed[who], field) {
				g.Errorf("%s sets %s of a %s, but docs/reference.md does not list this", who, field, kind)
			}
		}
		for _, field := range row.Filled {
			if managed["user "+field] && managed["provider "+field] {
				g.Errorf("user and provider both set %s of a %s", field, kind)
			}
		}
		for who, fields := range map[string][]string{"provider": row.Provider, "core": row.Core} {
			for _, field := range fields { // in a topology, the user of the ClusterClass sets some of the fields that core sets otherwise
				if slices.Contains(complete, kind) && !managed[who+" "+field] && (who != "core" || !managed["user "+field]) {
					g.Errorf("docs/reference.md says that %s sets %s of a %s, but the fields that were set are %v", who, field, kind, managed)
				}
			}
		}
	}
}

// owner returns the owner behind a field manager. For the topology controller this is the user, who has written the ClusterClass.
func (g *gitops) owner(manager string) string {
	switch {
	case manager == g.tool.manager, manager == "capi-topology":
		return "user"
	case manager == "cluster-api-provider-portal":
		return "provider"
	case strings.HasPrefix(manager, "capi-"):
		return "core"
	}
	return manager
}

// fieldsIn returns the fields of an entry of managedFields, in the notation of the table.
func (g *gitops) fieldsIn(raw []byte) (fields []string) {
	var entry map[string]map[string]any
	g.must(json.Unmarshal(raw, &entry))
	for key := range entry["f:spec"] {
		if key != "." {
			fields = append(fields, "spec."+strings.TrimPrefix(key, "f:"))
		}
	}
	if _, found := entry["f:status"]; found {
		fields = append(fields, "status")
	}
	for key, value := range entry["f:metadata"] {
		field := strings.TrimPrefix(key, "f:")
		inner, _ := value.(map[string]any)
		if field != "annotations" {
			fields = append(fields, field)
		}
		for annotation := range inner {
			switch {
			case field != "annotations", annotation == ".":
			case strings.HasPrefix(annotation, "f:"+ours):
				fields = append(fields, "portal-*")
			default:
				fields = append(fields, field)
			}
		}
	}
	return fields
}
