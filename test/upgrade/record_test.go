// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// kinds lists the kinds of the samples, in the order in which the objects can be created again.
var kinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Secret"},
	clusterv1.GroupVersion.WithKind("Cluster"),
	infrav1.GroupVersion.WithKind("PortalCluster"),
	infrav1.GroupVersion.WithKind("PortalClusterTemplate"),
	infrav1.GroupVersion.WithKind("PortalControlPlane"),
	infrav1.GroupVersion.WithKind("PortalControlPlaneTemplate"),
	infrav1.GroupVersion.WithKind("PortalMachineTemplate"),
	infrav1.GroupVersion.WithKind("PortalBootstrapConfigTemplate"),
	clusterv1.GroupVersion.WithKind("MachineDeployment"),
	clusterv1.GroupVersion.WithKind("MachineSet"),
	clusterv1.GroupVersion.WithKind("Machine"),
	infrav1.GroupVersion.WithKind("PortalMachine"),
	infrav1.GroupVersion.WithKind("PortalBootstrapConfig"),
}

// record writes the objects of the previous release to a file of the phase, without credentials.
func (l *life) record() {
	var text strings.Builder
	for _, kind := range kinds {
		l.write(&text, box.Client, kind, client.InNamespace(l.Namespace))
	}
	if _, err := box.WorkloadKubeconfig(l.Context(), client.ObjectKeyFromObject(l.Cluster)); err == nil {
		l.write(&text, l.Workload(), schema.GroupVersionKind{Version: "v1", Kind: "Node"})
	}
	l.Expect(os.MkdirAll(*record, 0o755)).To(Succeed())
	l.Expect(os.WriteFile(filepath.Join(*record, l.name+".yaml"), []byte(text.String()), 0o644)).To(Succeed())
}

func (l *life) write(text *strings.Builder, from client.Client, kind schema.GroupVersionKind, options ...client.ListOption) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	l.Expect(from.List(l.Context(), list, options...)).To(Succeed())
	for _, o := range list.Items {
		for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		delete(o.Object, "data") // of Secrets
		if kind.Kind == "Node" {
			delete(o.Object, "status")
		}
		content, err := yaml.Marshal(o.Object)
		l.Expect(err).NotTo(HaveOccurred())
		text.WriteString("---\n" + string(content))
	}
}
