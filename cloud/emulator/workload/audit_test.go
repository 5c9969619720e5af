// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// auditPolicy logs the users who create and delete Nodes.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, delete]
  resources: [{group: "", resources: [nodes]}]
- level: None
`

// testAuditLog checks that the log has the creations and deletions before and after the upgrades, each with its user.
func testAuditLog(t *testing.T, clusters *Clusters, id string) {
	g := NewWithT(t)
	content, err := os.ReadFile(clusters.AuditLog(id))
	g.Expect(err).NotTo(HaveOccurred())
	did := map[string][]string{}
	for line := range strings.Lines(string(content)) {
		var event struct {
			Verb      string `json:"verb"`
			UserAgent string `json:"userAgent"`
			ObjectRef struct{ Name string }
		}
		g.Expect(json.Unmarshal([]byte(line), &event)).To(Succeed())
		who := "a user"
		if event.UserAgent == UserAgent {
			who = "the portal"
		}
		did[event.ObjectRef.Name] = append(did[event.ObjectRef.Name], event.Verb+" by "+who)
	}
	g.Expect(did).To(Equal(map[string][]string{
		"life-control-1": {"create by the portal"},
		"life-worker-2":  {"create by the portal", "delete by the portal"},
		"life-worker-1": {
			"create by the portal", "delete by the portal", // another machine with the same name
			"create by the portal", "delete by a user",
			"create by the portal", "delete by the portal", // when the kubelet starts again, and when the machine is removed
		},
	}))
	g.Expect(clusters.AuditLog("none")).To(BeEmpty())
}
