// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// made are the kinds of the objects that the topology controller creates for a Cluster.
var made = []schema.GroupVersionKind{
	infrav1.GroupVersion.WithKind("PortalCluster"),
	infrav1.GroupVersion.WithKind("PortalControlPlane"),
	infrav1.GroupVersion.WithKind("PortalMachineTemplate"),
	infrav1.GroupVersion.WithKind("PortalBootstrapConfigTemplate"),
	clusterv1.GroupVersion.WithKind("MachineDeployment"),
}

// objects returns the objects that the topology controller has created for the Cluster.
func (f *fixture) objects() (all []unstructured.Unstructured) {
	f.Helper()
	for _, kind := range made {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		f.Expect(box.Client.List(f.Context(), list, client.InNamespace(f.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name})).To(Succeed())
		all = append(all, list.Items...)
	}
	return all
}

const touched = "test.capportal.example/touched"

// shape returns what must not change: the names of the objects, their generations, labels and annotations.
func (f *fixture) shape() map[string]string {
	f.Helper()
	shape := map[string]string{}
	for _, o := range f.objects() {
		annotations := o.GetAnnotations()
		delete(annotations, touched)
		shape[o.GetKind()+" "+o.GetName()] = fmt.Sprintf("generation %d, labels %v, annotations %v", o.GetGeneration(), o.GetLabels(), annotations)
	}
	return shape
}

// steady makes the topology controller compare all objects again, several times, and checks that it changes nothing. The topology
// controller compares an object again only if its resource version has changed, so steady first annotates all objects.
func (f *fixture) steady() {
	f.Helper()
	before := f.shape()
	for round := range 3 {
		compared := f.dryRuns("portalmachinetemplates")
		touch := func(o client.Object) {
			base, _ := o.DeepCopyObject().(client.Object)
			annotations := maps.Clone(o.GetAnnotations())
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[touched] = strconv.Itoa(round)
			o.SetAnnotations(annotations)
			f.Expect(box.Client.Patch(f.Context(), o, client.MergeFrom(base))).To(Succeed())
		}
		for _, o := range f.objects() {
			touch(&o)
		}
		f.Get(f.cluster)
		touch(f.cluster)
		f.Eventually(func() int { return f.dryRuns("portalmachinetemplates") }).Should(BeNumerically(">=", compared+2), "dry runs with which the topology controller compares")
		f.Consistently(f.shape, 2*time.Second, 500*time.Millisecond).Should(Equal(before), "generations, labels and annotations")
	}
	f.Expect(f.Condition(f.cluster, clusterv1.ClusterTopologyReconciledCondition)()).To(HavePrefix("True"))
	f.neverFailed()
}

// dryRuns returns the number of successful server-side-apply dry runs for a resource. It includes those of other tests.
func (f *fixture) dryRuns(resource string) (count int) {
	f.Helper()
	administrator, err := rest.HTTPClientFor(box.Config)
	f.Expect(err).NotTo(HaveOccurred())
	answer, err := administrator.Get(box.Config.Host + "/metrics")
	f.Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	metrics, err := io.ReadAll(answer.Body)
	f.Expect(err).NotTo(HaveOccurred())
	for line := range strings.SplitSeq(string(metrics), "\n") {
		if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `code="200"`) && strings.Contains(line, `dry_run="All"`) &&
			strings.Contains(line, `resource="`+resource+`"`) && strings.Contains(line, `verb="APPLY"`) {
			n, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
			f.Expect(err).NotTo(HaveOccurred())
			count += int(n)
		}
	}
	return count
}
