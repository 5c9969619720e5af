// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"net/http"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// describe checks that the tree of clusterctl describe is complete, shows a healthy Cluster as healthy, and shows in one line what an
// unhealthy Cluster waits for.
func describe(t *testing.T) {
	s := prepareSubject(t)
	s.create(2)
	quiet := s.described()
	t.Logf("\n%s", quiet)
	for _, object := range []string{
		"Cluster " + s.key().String() + " ", "PortalCluster " + s.key().String() + " ",
		"PortalControlPlane " + s.key().String() + ", " + olderVersion,
		"MachineDeployment " + s.key().String() + "-workers, " + olderVersion, "2 Machines...",
	} {
		s.Expect(s.lineOf(quiet, object)).To(And(ContainSubstring("True"), Not(ContainSubstring("False"))), "the line of %s", object)
	}

	s.strike(emulator.Fault{Method: http.MethodPost, Path: createRoute + "/*/scale", Code: "INSUFFICIENT_CAPACITY"})
	s.scaleTo(3)
	s.Eventually(s.says(infrav1.WorkersReadyCondition)).Should(HavePrefix("False " + infrav1.InsufficientCapacityReason))
	troubled := s.described("--show-conditions", "all")
	t.Logf("\n%s", troubled)
	s.Expect(s.lineOf(troubled, "WorkersReady ")).To(And(ContainSubstring("False"), ContainSubstring(infrav1.InsufficientCapacityReason)))
	s.Expect(s.lineOf(troubled, "WorkersReady ")).To(ContainSubstring("cale from 2 to 3 workers"), "what the provider is about to do")
	s.Expect(troubled).NotTo(ContainSubstring(password(s.user)))

	s.Expect(env.portal.removeFault(s.Context(), s.namespace)).To(Succeed())
	s.scaleTo(2)
	s.settled(2)
	s.remove()
}

func (s *subject) described(flags ...string) string {
	s.Helper()
	arguments := append([]string{"describe", "cluster", s.name, "--namespace", s.namespace, "--color=false"}, flags...)
	text, err := env.clusterctl.run(s.Context(), s.at, nil, arguments...)
	s.Expect(err).NotTo(HaveOccurred())
	return text
}

// lineOf returns the line of an object or a condition.
func (s *subject) lineOf(described, what string) string {
	s.Helper()
	for line := range strings.Lines(described) {
		if strings.Contains(line, what) {
			return line
		}
	}
	s.Fatalf("clusterctl describe does not show %s:\n%s", what, described)
	return ""
}
