// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestTopology checks that a tenant cannot pass the provider's annotations through core, either in the topology of a Cluster or in the
// template of a ClusterClass. Core writes the PortalControlPlane with its own rights, which do not include adopt.
func TestTopology(t *testing.T) {
	forged := map[string]string{infrav1.OperationAnnotation: `{"id":"1","type":"create","target":"x","time":"2026-01-01T00:00:00Z","jobID":"job-1"}`}
	for title, test := range map[string]struct {
		cluster  func(*clusterv1.Cluster)
		template func(*infrav1.PortalControlPlaneTemplate)
		made     bool
	}{
		"honest":      {made: true},
		"topology":    {cluster: func(c *clusterv1.Cluster) { c.Spec.Topology.ControlPlane.Metadata.Annotations = forged }},
		"in template": {template: func(c *infrav1.PortalControlPlaneTemplate) { c.Spec.Template.ObjectMeta.Annotations = forged }},
	} {
		t.Run(title, func(t *testing.T) {
			y := newTenancy(t)
			y.SetDefaultEventuallyTimeout(time.Minute)
			y.SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
			for _, o := range y.class(test.template) {
				y.create(y.tenant, o)
			}
			cluster := y.classyCluster()
			if test.cluster != nil {
				test.cluster(cluster)
			}
			y.Eventually(func() error { // until core has reconciled the ClusterClass
				c, _ := cluster.DeepCopyObject().(client.Object)
				return y.tenant.Create(y.Context(), c)
			}).Should(Succeed())
			key := client.ObjectKeyFromObject(cluster)
			if test.made {
				y.Eventually(func() error { return y.tenant.Get(y.Context(), key, &infrav1.PortalControlPlane{}) }).Should(Succeed())
				return
			}
			y.Eventually(func() string {
				if err := y.tenant.Get(y.Context(), key, cluster); err != nil {
					return err.Error()
				}
				return conditions.GetMessage(cluster, clusterv1.ClusterTopologyReconciledCondition)
			}).Should(ContainSubstring("verb adopt"))
			err := y.tenant.Get(y.Context(), key, &infrav1.PortalControlPlane{})
			y.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		})
	}
}

// class returns the ClusterClass of the release with its templates.
func (y *tenancy) class(change func(*infrav1.PortalControlPlaneTemplate)) (all []client.Object) {
	y.Helper()
	manifests, err := os.ReadFile(box.File("templates", "clusterclass-portal.yaml"))
	y.Expect(err).NotTo(HaveOccurred())
	objects, err := parse(manifests)
	y.Expect(err).NotTo(HaveOccurred())
	for _, o := range objects {
		o.SetNamespace(y.namespace)
		if o.GetKind() == "PortalControlPlaneTemplate" && change != nil {
			template := &infrav1.PortalControlPlaneTemplate{}
			y.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, template)).To(Succeed())
			change(template)
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(template)
			y.Expect(err).NotTo(HaveOccurred())
			o = &unstructured.Unstructured{Object: content}
		}
		all = append(all, o)
	}
	return all
}

func (y *tenancy) classyCluster() *clusterv1.Cluster {
	variable := func(name, value string) clusterv1.ClusterVariable {
		v := clusterv1.ClusterVariable{Name: name}
		v.Value.Raw = []byte(value)
		return v
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: y.namespace, Name: "classy"}}
	cluster.Spec.Topology.ClassRef.Name = "portal"
	cluster.Spec.Topology.Version = "v1.35.6"
	cluster.Spec.Topology.ControlPlane.Replicas = new(int32(1))
	for name, value := range map[string]string{
		"zoneID": `"zone-1"`, "vpc": `{"name":"default"}`, "serviceOfferingID": `"small"`, "sshKeyPair": `"ops"`,
	} {
		cluster.Spec.Topology.Variables = append(cluster.Spec.Topology.Variables, variable(name, value))
	}
	cluster.Spec.Topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{
		{Class: "default-worker", Name: "workers", Replicas: new(int32(1))},
	}
	return cluster
}
