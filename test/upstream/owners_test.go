// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package upstream

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
)

const group = "infrastructure.cluster.x-k8s.io/v1beta1"

type (
	owners     = map[string]func(types.NamespacedName, []metav1.OwnerReference) error
	finalizers = map[string]func(types.NamespacedName) []string
)

// owner returns an owner reference in the form that upstream's validators compare.
func owner(apiVersion, kind string, controller bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Controller: ptr.To(controller)}
}

// portalOwners returns the owners of this provider's objects: the same that own their counterparts in upstream's providers.
func portalOwners(withTopology bool) owners {
	var (
		core     = clusterv1.GroupVersion.String()
		cluster  = owner(core, "Cluster", false)
		machine  = owner(core, "Machine", true)
		pool     = owner(core, "MachinePool", true)
		class    = owner(core, "ClusterClass", false)
		ofOne    = owner(core, "Cluster", withTopology)
		template = func(_ types.NamespacedName, got []metav1.OwnerReference) error {
			return framework.HasOneOfExactOwners(got, []metav1.OwnerReference{cluster}, []metav1.OwnerReference{class})
		}
		exactly = func(want ...metav1.OwnerReference) func(types.NamespacedName, []metav1.OwnerReference) error {
			return func(_ types.NamespacedName, got []metav1.OwnerReference) error {
				return framework.HasExactOwners(got, want...)
			}
		}
	)
	return owners{
		"PortalCluster":             exactly(ofOne),
		"PortalControlPlane":        exactly(ofOne),
		"PortalMachine":             exactly(machine),
		"PortalMachinePool":         exactly(pool, cluster),
		"PortalMachinePoolTemplate": exactly(class),
		"PortalBootstrapConfig": func(_ types.NamespacedName, got []metav1.OwnerReference) error {
			return framework.HasOneOfExactOwners(got, []metav1.OwnerReference{machine}, []metav1.OwnerReference{pool, cluster})
		},
		"PortalMachineTemplate":         template,
		"PortalBootstrapConfigTemplate": template,
		"PortalClusterTemplate":         exactly(class),
		"PortalControlPlaneTemplate":    exactly(class),
		// The kubeconfig, the bootstrap Secret of a Machine, and the identity Secret, which the user created.
		"Secret": func(_ types.NamespacedName, got []metav1.OwnerReference) error {
			return framework.HasOneOfExactOwners(got, nil, []metav1.OwnerReference{owner(group, "PortalControlPlane", true)},
				[]metav1.OwnerReference{owner(group, "PortalBootstrapConfig", true)})
		},
	}
}

// portalFinalizers lists the finalizers of this provider's objects. api/v1beta1/annotations.go explains them.
var portalFinalizers = finalizers{
	"PortalCluster": func(types.NamespacedName) []string {
		return []string{"portalcluster.infrastructure.cluster.x-k8s.io"}
	},
	"PortalControlPlane": func(types.NamespacedName) []string {
		return []string{"portalcontrolplane.infrastructure.cluster.x-k8s.io"}
	},
	"PortalMachinePool": func(types.NamespacedName) []string {
		return []string{"portalmachinepool.infrastructure.cluster.x-k8s.io"}
	},
	"Secret": func(key types.NamespacedName) []string {
		if key.Name == "portal-identity" {
			return []string{"infrastructure.cluster.x-k8s.io/portal-identity"}
		}
		return nil
	},
}
