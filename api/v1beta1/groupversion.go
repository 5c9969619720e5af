// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of all kinds of this package.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&PortalCluster{}, &PortalClusterList{},
		&PortalControlPlane{}, &PortalControlPlaneList{},
		&PortalMachine{}, &PortalMachineList{},
		&PortalMachineTemplate{}, &PortalMachineTemplateList{},
		&PortalMachinePool{}, &PortalMachinePoolList{},
		&PortalMachinePoolTemplate{}, &PortalMachinePoolTemplateList{},
		&PortalClusterTemplate{}, &PortalClusterTemplateList{},
		&PortalControlPlaneTemplate{}, &PortalControlPlaneTemplateList{},
		&PortalClusterIdentity{}, &PortalClusterIdentityList{},
		&PortalBootstrapConfig{}, &PortalBootstrapConfigList{},
		&PortalBootstrapConfigTemplate{}, &PortalBootstrapConfigTemplateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
