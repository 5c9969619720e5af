// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestRefusedUpgradeIsSeen asks for a version that the portal does not offer. kubectl get, clusterctl describe, the condition Ready and one
// Warning event report it. A health check that waits for Ready does not pass with the Ready condition of the old spec. Then the user asks for
// a lower version, and for the running one. TestHoldsWarnOnce of controllers/portalcontrolplane counts events and requests in virtual time.
func TestRefusedUpgradeIsSeen(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	version := func(v string) {
		suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = v })
	}
	s.Eventually(s.Condition(s.controlPlane, infrav1.ReadyCondition)).Should(HavePrefix("True Ready"))
	s.Expect(s.row()).To(And(HaveKeyWithValue("Ready", "True"), HaveKeyWithValue("Reason", infrav1.ReadyReason)))
	version("v1.99.0")
	s.Eventually(s.observed).Should(BeTrue())
	s.Expect(s.Condition(s.controlPlane, infrav1.ReadyCondition)()).To(HavePrefix("False " + infrav1.VersionNotOfferedReason))
	s.Expect(s.row()).To(And(HaveKeyWithValue("Available", "True"), HaveKeyWithValue("Ready", "False"),
		HaveKeyWithValue("Reason", infrav1.VersionNotOfferedReason), HaveKeyWithValue("Version", "v1.35.6")))
	s.Expect(strings.Join(strings.Fields(s.describedByClusterctl()), " ")).To(ContainSubstring("runs v1.35.6. The portal does not offer v1.99.0"))
	s.Eventually(s.warnings).Should(ConsistOf(HavePrefix(infrav1.VersionNotOfferedReason + " The portal does not offer v1.99.0")))

	upToDate := s.Condition(s.controlPlane, infrav1.VersionUpToDateCondition)
	version("v1.34.9")
	s.Eventually(upToDate).Should(Equal(
		"False VersionNotOffered: The cluster runs v1.35.6, and the portal does not downgrade. Set spec.version to v1.35.6 or a later version"))
	version("v1.35.6")
	s.Eventually(upToDate).Should(HavePrefix("True"))
	s.end()
	s.Expect(s.Changes()).To(Equal([]string{createRequest, "DELETE {cluster_id} 202"}))
}

// observed reports whether the provider has observed the latest spec of the control plane.
func (s *story) observed() bool {
	s.Helper()
	s.Get(s.controlPlane)
	return s.controlPlane.Status.ObservedGeneration == s.controlPlane.Generation
}

// row returns what kubectl get prints for the control plane, by column.
func (s *story) row() map[string]any {
	s.Helper()
	web, err := rest.HTTPClientFor(s.Box.Config)
	s.Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.Box.Config.Host+"/apis/"+infrav1.GroupVersion.String()+
		"/namespaces/"+s.Namespace+"/portalcontrolplanes/"+name, nil)
	s.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	answer, err := web.Do(request)
	s.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	s.Expect(err).NotTo(HaveOccurred())
	table := metav1.Table{}
	s.Expect(json.Unmarshal(raw, &table)).To(Succeed(), string(raw))
	s.Expect(table.Rows).To(HaveLen(1), string(raw))
	row := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		row[column.Name] = table.Rows[0].Cells[i]
	}
	return row
}

// describedByClusterctl returns the output of clusterctl describe.
func (s *story) describedByClusterctl() string {
	s.Helper()
	command := exec.CommandContext(s.Context(), s.Box.Binary("clusterctl"), "describe", "cluster", name, "--namespace", s.Namespace, "--color=false")
	command.Env = []string{"HOME=" + s.TempDir(), "KUBECONFIG=" + s.Box.Kubeconfig, "CLUSTERCTL_DISABLE_VERSIONCHECK=true"}
	out, err := command.CombinedOutput()
	s.Expect(err).NotTo(HaveOccurred(), string(out))
	s.Logf("\n%s", out)
	return string(out)
}

// warnings returns the reasons and texts of the control plane's Warning events.
func (s *story) warnings() (all []string) {
	s.Helper()
	list := &eventsv1.EventList{}
	s.List(list)
	for _, e := range list.Items {
		if e.Type == "Warning" && e.Regarding.Kind == "PortalControlPlane" {
			all = append(all, e.Reason+" "+e.Note)
		}
	}
	return all
}
