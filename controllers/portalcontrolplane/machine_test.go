// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// machine adds a Machine and its PortalMachine.
func (f *fixture) machine(name string, change func(*clusterv1.Machine)) {
	f.Helper()
	meta := metav1.ObjectMeta{Namespace: prod.Namespace, Name: name, Labels: map[string]string{
		clusterv1.ClusterNameLabel: prod.Name, clusterv1.MachineDeploymentNameLabel: deployment,
	}}
	m := &clusterv1.Machine{ObjectMeta: meta}
	set := metav1.ObjectMeta{Name: "set", UID: "uid-set"}
	m.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&set, clusterv1.GroupVersion.WithKind("MachineSet"))}
	m.Spec.ClusterName, m.Spec.Bootstrap.DataSecretName = prod.Name, ptr.To("")
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "PortalMachine", Name: name}
	change(m)
	if err := f.store.Create(f.Context(), m); err != nil {
		f.Fatal(err)
	}
	if err := f.store.Create(f.Context(), &infrav1.PortalMachine{ObjectMeta: meta}); err != nil {
		f.Fatal(err)
	}
}
