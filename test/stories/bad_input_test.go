// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"net"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const missingVPC = "VPC that does not exist"

// TestBadInputIsExplained makes the mistakes that users make. A condition must report each mistake and how to correct it.
// As long as the mistake lasts, the provider sends at most two requests a minute to the portal. The story looks until the provider has tried
// one of the mistakes again. TestBackoffGrows of controllers/outcome has the times between attempts.
func TestBadInputIsExplained(t *testing.T) {
	suite.Long(t)
	t.Parallel()
	tests := map[string]struct {
		wrong func(*story)
		// onPortalCluster selects the condition Ready of the PortalCluster instead of Available of the PortalControlPlane.
		onPortalCluster bool
		reason, says    string
	}{
		"Secret missing": {
			wrong:           func(s *story) { s.portalCluster.Spec.IdentityRef.Name = "nowhere" },
			onPortalCluster: true, reason: infrav1.IdentityInvalidReason, says: `Create it with keys baseURL, email and password`,
		},
		"Secret without password": {
			wrong:           func(s *story) { delete(s.secret.StringData, infrav1.IdentityPassword) },
			onPortalCluster: true, reason: infrav1.IdentityInvalidReason, says: `has no key "password". Add it`,
		},
		"wrong password": {
			wrong:           func(s *story) { s.secret.StringData[infrav1.IdentityPassword] = "wrong" },
			onPortalCluster: true, reason: infrav1.UnauthorizedReason, says: "Correct email and password in the identity Secret",
		},
		"http URL": {
			wrong:           func(s *story) { s.secret.StringData[infrav1.IdentityBaseURL] = "http://portal.example" },
			onPortalCluster: true, reason: infrav1.IdentityInvalidReason, says: "https",
		},
		"host of a metadata service": {
			wrong:           func(s *story) { s.secret.StringData[infrav1.IdentityBaseURL] = "https://169.254.169.254" },
			onPortalCluster: true, reason: infrav1.IdentityInvalidReason, says: "baseURL: names a host that is not one of the portals allowed here",
		},
		"limit that is no number": {
			wrong:           func(s *story) { s.secret.StringData[infrav1.IdentityRequestsPerMinute] = "many" },
			onPortalCluster: true, reason: infrav1.IdentityInvalidReason, says: "requestsPerMinute: must be a whole number",
		},
		"unknown CA": {
			wrong:           func(s *story) { delete(s.secret.StringData, infrav1.IdentityCABundle) },
			onPortalCluster: true, reason: infrav1.PortalUnavailableReason, says: "manager's log, which has the cause",
		},
		"portal down": {
			wrong:           func(s *story) { s.secret.StringData[infrav1.IdentityBaseURL] = "https://" + closedPort(s) },
			onPortalCluster: true, reason: infrav1.PortalUnavailableReason, says: "cannot be reached",
		},
		missingVPC: {
			wrong:           func(s *story) { s.portalCluster.Spec.VPC.Name = "elsewhere" },
			onPortalCluster: true, reason: infrav1.RefusedReason, says: `0 VPCs of the portal account are named "elsewhere"`,
		},
		"version that is not offered": {
			wrong:  func(s *story) { s.controlPlane.Spec.Version = "v1.30.1" },
			reason: infrav1.VersionNotOfferedReason, says: "one of: v1.34.9, v1.35.6, v1.36.3",
		},
		"templates that disagree": {
			wrong: func(s *story) {
				meta := s.template.ObjectMeta
				meta.Name = "large"
				s.Create(newTemplate(meta, "large"))
				s.Create(newDeployment(meta, 1))
			},
			reason: infrav1.TemplateNotHonoredReason, says: "large: offering large, SSH key pair ops; story: offering small",
		},
		"no template": {
			wrong:  func(s *story) { s.deployment.Spec.Template.Spec.InfrastructureRef.Name = "lost" },
			reason: infrav1.WaitingForObjectReason, says: "PortalMachineTemplate lost, which a MachineDeployment names, does not exist. Create it",
		},
		"more workers than the portal allows": {
			wrong:  func(s *story) { s.deployment.Spec.Replicas = ptr.To[int32](60) },
			reason: infrav1.RefusedReason, says: "at most 50 workers",
		},
	}
	type mistake struct {
		*story
		title     string
		condition func() string
		reports   types.GomegaMatcher
		before    int
	}
	var mistakes []*mistake
	for title, test := range tests {
		m := &mistake{story: newStory(t), title: title, reports: And(HavePrefix("False "+test.reason), ContainSubstring(test.says))}
		test.wrong(m.story)
		m.apply()
		m.condition = m.Condition(m.controlPlane, infrav1.AvailableCondition)
		if test.onPortalCluster {
			m.condition = m.Condition(m.portalCluster, infrav1.ReadyCondition)
		}
		mistakes = append(mistakes, m)
	}
	for _, m := range mistakes {
		m.Eventually(m.condition).Should(m.reports, m.title)
	}
	begin := time.Now()
	for _, m := range mistakes {
		m.before = m.requests()
	}
	// The provider tries again after 30 seconds, and then after twice as long each time.
	again := mistakes[slices.IndexFunc(mistakes, func(m *mistake) bool { return m.title == missingVPC })]
	again.Eventually(func() int { return again.requests() - again.before }).Should(BeNumerically(">", 0), "another search for the VPC")
	most := 2 * (1 + int(time.Since(begin)/time.Minute))
	for _, m := range mistakes {
		m.Expect(m.requests()-m.before).To(BeNumerically("<=", most), "%s: requests until then", m.title)
		m.Expect(m.condition()).To(m.reports, "%s: the condition still reports it", m.title)
		m.Expect(m.PortalClusters()).To(BeEmpty(), m.title)
		m.deleteAll()
	}
	for _, m := range mistakes {
		m.gone()
		m.secretIsGone()
	}
}

func closedPort(s *story) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.Expect(err).NotTo(HaveOccurred())
	defer func() { s.Expect(listener.Close()).To(Succeed()) }()
	return listener.Addr().String()
}
