// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// Context has a logger that keeps the lines.
func (f *fixture) Context() context.Context {
	return ctrl.LoggerInto(f.T.Context(), funcr.New(func(_, args string) { f.logs = append(f.logs, args) }, funcr.Options{}))
}

// TestScaleDownIsExplained scales from 5 to 3 workers. The events alone answer why each node was drained, who removed it, and why the request was
// sent, and the log alone does too. Both have each change once, although many passes see the drains.
func TestScaleDownIsExplained(t *testing.T) {
	const (
		sum  = "the sum of the replicas is 3, and the number of workers is 5"
		goes = "no Machine has it, and " + sum + ". The portal is expected to remove Node %s next (Newest first)"
		sent = sum + "; drained, and expected to be removed (Newest first): w5, w4"
	)
	why := func(node string) string { return strings.ReplaceAll(goes, "%s", node) }
	wantEvents := []string{
		"Normal NodeDrainStarted The provider drains Node w5: " + why("w5"),
		"Normal NodeDrainStarted The provider drains Node w4: " + why("w4"),
		"Normal NodeDrainEnded Node w5 is drained: " + why("w5"),
		"Normal NodeDrainEnded Node w4 is drained: " + why("w4"),
		"Normal OperationStarted The portal accepted the scale from 5 to 3 workers (job ID). Reason: " + sent,
		"Normal OperationSucceeded Scaled from 5 to 3 workers",
	}
	wantLog := []string{
		`"Began to drain the Node" "Machine"="" "Node"="w5" "why"="` + why("w5") + `"`,
		`"Began to drain the Node" "Machine"="" "Node"="w4" "why"="` + why("w4") + `"`,
		`"Recorded that the Node is drained" "Machine"="" "Node"="w5" "why"="` + why("w5") + `"`,
		`"Recorded that the Node is drained" "Machine"="" "Node"="w4" "why"="` + why("w4") + `"`,
		`"Sending a request to the portal" "operation"="ID" "type"="scale" "target"="3" "portalCluster"="ID" "why"="` + sent + `"`,
		`"The portal accepted the request" "operation"="ID" "type"="scale" "target"="3" "portalCluster"="ID" "jobID"="ID" "createdID"=""`,
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, 3, emulator.Durations{})
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.RemovalOrder = infrav1.RemovalOrder("Newest") })
		names := map[string]string{}
		for i, size := range []int{3, 4, 5} {
			f.settleAt(size)
			for _, n := range f.workers() {
				if names[n.Name] == "" {
					names[n.Name] = []string{"w", "w4", "w5"}[i]
				}
			}
		}
		f.events()
		f.logs = nil
		f.settleAt(3)
		plain := func(lines []string) (all []string) {
			for _, line := range lines {
				line = strings.TrimPrefix(line, `"level"=0 "msg"=`)
				for name, short := range names {
					line = strings.ReplaceAll(line, name, short)
				}
				all = append(all, ids.ReplaceAllString(line, "${1}ID"))
			}
			return all
		}
		if diff := cmp.Diff(wantEvents, plain(f.events())); diff != "" {
			t.Errorf("events: %s", diff)
		}
		if diff := cmp.Diff(wantLog, plain(f.logs)); diff != "" {
			t.Errorf("log: %s", diff)
		}
	})
}

// ids are those of jobs, operations and portal clusters.
var ids = regexp.MustCompile(`(job |"operation"="|"jobID"="|"portalCluster"=")[\w-]+`)

// TestLostScaleIsExplained cuts the connection when a scale was sent. One event names the request and its reason, although many passes wait for
// the result, and the request that is sent again has its own.
func TestLostScaleIsExplained(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.strike(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters/" + f.id + "/scale", Count: 1, Cut: true})
		f.settleAt(4)
		var got []string
		for _, event := range f.events() {
			got = append(got, strings.Join(strings.Fields(event)[:2], " "))
			if !strings.Contains(event, "from 3 to 4 workers") && !strings.Contains(event, "from at most 4 to 4 workers") {
				f.Errorf("names no request: %s", event)
			}
			if reason := "Reason: the sum of the replicas is 4, and the number of workers is 3"; !strings.Contains(event, reason) && !strings.Contains(event, "Scaled") {
				f.Errorf("names no reason: %s", event)
			}
		}
		want := []string{"Warning " + infrav1.AnswerLostReason, "Normal " + infrav1.EventOperationStarted, "Normal " + infrav1.EventOperationSucceeded}
		if diff := cmp.Diff(want, got); diff != "" {
			f.Error(diff)
		}
	})
}
