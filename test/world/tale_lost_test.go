// SPDX-License-Identifier: Apache-2.0

package world

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestLostManagementCluster lives with the manifests of each flavor, until the management cluster is lost. The tool applies the manifests to a new
// one before a person thinks. With an identity that holds creations, or with the id in an annotation, no second portal cluster is created. Then
// a person sets spec.clusterID.
func TestLostManagementCluster(t *testing.T) {
	for flavor, files := range map[string][]string{
		"default":          {"cluster-template.yaml"},
		"existing-network": {"cluster-template-existing-network.yaml"},
		"machinepool":      {"cluster-template-machinepool.yaml"},
		"storage":          {"cluster-template-storage.yaml"},
		"topology":         {"clusterclass-portal.yaml", "cluster-template-topology.yaml"},
	} {
		t.Run(flavor, func(t *testing.T) {
			eachTool(t, func(g *gitops) {
				g.manifests = slices.DeleteFunc(g.manifests, func(o *unstructured.Unstructured) bool { // they are of the workload cluster
					return o.GetKind() == "ClusterResourceSet" || o.GetKind() == "ConfigMap"
				})
				network := []string{"spec", "network"}
				if flavor == "existing-network" { // which the portal has from now on
					g.set("PortalCluster", map[string]any{"cidr": "10.0.0.0/24"}, network...)
				}
				g.sync()
				g.See(theControl(), infrav1.WorkersReadyCondition, "True")
				id := read(g.World, theControl()).Spec.ClusterID

				if flavor == "existing-network" {
					g.set("PortalCluster", map[string]any{"id": read(g.World, thePortalCluster()).Status.NetworkID}, network...)
				}
				g.lose()
				g.holdCreations(infrav1.CreationsHeld)
				g.See(theControl(), infrav1.ProvisionedCondition, "False "+infrav1.CreationsHeldReason)
				g.adopt(id)

				g.lose()
				g.holdCreations(infrav1.CreationsAllowed)
				kind, path := "PortalControlPlane", []string{"metadata", "annotations", infrav1.ClusterIDAnnotation}
				if flavor == "topology" {
					kind, path = "Cluster", append([]string{"spec", "topology", "controlPlane"}, path...)
				}
				g.set(kind, id, path...)
				g.See(theControl(), infrav1.ProvisionedCondition, "False "+infrav1.RestoredObjectReason, id)
				g.adopt(id)
				Equal(g.World, "what is wrong", g.wrong, nil)
			}, files...)
		})
	}
}

// lose removes all objects from the management cluster, except the identity, as if it was a new one. The manager starts there.
func (g *gitops) lose() {
	g.Helper()
	for key, o := range g.management.store.all() {
		if o.GetNamespace() == namespace && o.GetName() != NewManifest(0).Identity.Name {
			g.management.store.swap(key, o, nil)
		}
	}
	g.applied = nil
	g.Restart()
}

func (g *gitops) holdCreations(value string) {
	g.Helper()
	secret := &corev1.Secret{ObjectMeta: named(NewManifest(0).Identity.Name)}
	Edit(g.World, client.ObjectKeyFromObject(secret), secret, func(s *corev1.Secret) { s.Data[infrav1.IdentityCreations] = []byte(value) })
}

// adopt waits, and then sets spec.clusterID. There is one portal cluster before and afterwards.
func (g *gitops) adopt(id string) {
	g.Helper()
	g.Let(10 * time.Minute)
	Equal(g.World, "portal clusters", len(g.Portal.Clusters()), 1)
	Edit(g.World, key, theControl(), func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = id })
	g.See(theControl(), infrav1.WorkersReadyCondition, "True")
	g.See(theCluster(), clusterv1.ClusterAvailableCondition, "True")
	Equal(g.World, "portal clusters", len(g.Portal.Clusters()), 1)
}
