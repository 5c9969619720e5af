// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"crypto/tls"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// testRotate rotates a running cluster in each way, and checks that the old kubeconfig fails with the expected error and that the new one
// works.
func testRotate(t *testing.T, clusters *Clusters, want emulator.Workload) {
	g := NewWithT(t)
	for _, test := range []struct {
		what emulator.Rotation
		old  string // expected error with the old kubeconfig
	}{
		{emulator.Rotation{Credentials: true}, "Unauthorized"},
		{emulator.Rotation{Endpoint: true}, "connection refused"},
		{emulator.Rotation{Authority: true}, "certificate signed by unknown authority"},
	} {
		old := connect(t, clusters, want.ID)
		g.Expect(clusters.Rotate(t.Context(), want.ID, test.what)).To(Succeed())
		_, err := old.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		g.Expect(err).To(MatchError(ContainSubstring(test.old)), "%s", test.what)
		checkNodes(t, connect(t, clusters, want.ID), want.Nodes)
	}
	want.KubeconfigLifetime = time.Hour
	apply(t, clusters, want)
	config := config(t, clusters, want.ID)
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pair.Leaf.NotAfter).To(BeTemporally("~", time.Now().Add(time.Hour), time.Minute))
	checkNodes(t, connect(t, clusters, want.ID), want.Nodes)
}

// TestControlMarks checks that the option decides the label and the taint of control nodes.
func TestControlMarks(t *testing.T) {
	for marks, want := range map[emulator.ControlMarks][2]bool{ // label, taint
		"": {true, true}, emulator.MarkedBoth: {true, true}, emulator.MarkedLabel: {true, false},
		emulator.MarkedTaint: {false, true}, emulator.MarkedNone: {false, false},
	} {
		node := newNode(emulator.Node{Name: "c", ControlPlane: true}, "10.0.0.4", marks)
		_, labelled := node.Labels[controlPlaneLabel]
		if got := [2]bool{labelled, len(node.Spec.Taints) > 0}; got != want {
			t.Errorf("control marks %q: label and taint %v", marks, got)
		}
	}
}
