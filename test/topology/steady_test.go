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
func (w *world) objects() (all []unstructured.Unstructured) {
	w.Helper()
	for _, kind := range made {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		w.Expect(box.Client.List(w.Context(), list, client.InNamespace(w.namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name})).To(Succeed())
		all = append(all, list.Items...)
	}
	return all
}

const touched = "test.capportal.example/touched"

// shape returns what must not change: the names of the objects, their generations, labels and annotations.
func (w *world) shape() map[string]string {
	w.Helper()
	shape := map[string]string{}
	for _, o := range w.objects() {
		annotations := o.GetAnnotations()
		delete(annotations, touched)
		shape[o.GetKind()+" "+o.GetName()] = fmt.Sprintf("generation %d, labels %v, annotations %v", o.GetGeneration(), o.GetLabels(), annotations)
	}
	return shape
}

// steady makes the topology controller compare all objects again, several times, and checks that it changes nothing. The topology
// controller compares an object again only if its resource version has changed, so steady first annotates all objects.
func (w *world) steady() {
	w.Helper()
	before := w.shape()
	for round := range 3 {
		compared := w.dryRuns("portalmachinetemplates")
		touch := func(o client.Object) {
			base, _ := o.DeepCopyObject().(client.Object)
			annotations := maps.Clone(o.GetAnnotations())
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[touched] = strconv.Itoa(round)
			o.SetAnnotations(annotations)
			w.Expect(box.Client.Patch(w.Context(), o, client.MergeFrom(base))).To(Succeed())
		}
		for _, o := range w.objects() {
			touch(&o)
		}
		w.Expect(box.Client.Get(w.Context(), client.ObjectKeyFromObject(w.cluster), w.cluster)).To(Succeed())
		touch(w.cluster)
		w.Eventually(func() int { return w.dryRuns("portalmachinetemplates") }).Should(BeNumerically(">=", compared+2), "dry runs with which the topology controller compares")
		w.Consistently(w.shape, 2*time.Second, 500*time.Millisecond).Should(Equal(before), "generations, labels and annotations")
	}
	w.Expect(w.condition(clusterv1.ClusterTopologyReconciledCondition)()).To(HavePrefix("True"))
	w.neverFailed()
}

// dryRuns returns the number of successful server-side-apply dry runs for a resource. It includes those of other tests.
func (w *world) dryRuns(resource string) (count int) {
	w.Helper()
	administrator, err := rest.HTTPClientFor(box.Config)
	w.Expect(err).NotTo(HaveOccurred())
	answer, err := administrator.Get(box.Config.Host + "/metrics")
	w.Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close() //nolint:errcheck // The body is only read.
	metrics, err := io.ReadAll(answer.Body)
	w.Expect(err).NotTo(HaveOccurred())
	for line := range strings.SplitSeq(string(metrics), "\n") {
		if strings.HasPrefix(line, "apiserver_request_total{") && strings.Contains(line, `code="200"`) && strings.Contains(line, `dry_run="All"`) &&
			strings.Contains(line, `resource="`+resource+`"`) && strings.Contains(line, `verb="APPLY"`) {
			n, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
			w.Expect(err).NotTo(HaveOccurred())
			count += int(n)
		}
	}
	return count
}
