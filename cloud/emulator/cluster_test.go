// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestCreateRefused checks the status and the field of each refused create call. conformance checks that each field is required.
func TestCreateRefused(t *testing.T) {
	opts := emulator.Options{Zones: []string{"zone-1"}, ServiceOfferings: []string{"offering-1"}, SSHKeyPairs: []string{"key"}, MinWorkers: 1}
	p := newPortal(t, opts)
	c := login(t, p)
	for _, test := range []struct {
		field  string
		value  any
		status int
		code   string
	}{
		{"name", "Demo", 400, emulator.CodeInvalidParameter},
		{"name", strings.Repeat("a", 64), 400, emulator.CodeInvalidParameter},
		{"name", "-demo", 400, emulator.CodeInvalidParameter},
		{"name", "demo-", 400, emulator.CodeInvalidParameter},
		{"zoneId", "zone-2", 400, emulator.CodeInvalidParameter},
		{"kubernetesVersionId", "v1.36.3", 400, emulator.CodeInvalidParameter},
		{"serviceOfferingId", "other", 400, emulator.CodeInvalidParameter},
		{"size", -1, 400, emulator.CodeInvalidParameter},
		{"size", 0, 422, emulator.CodeInvalidParameter},
		{"size", 51, 422, emulator.CodeQuotaExceeded},
		{"controlNodes", 0, 400, emulator.CodeInvalidParameter},
		{"controlNodes", 8, 422, emulator.CodeInvalidParameter},
		{"vpcId", "other", 400, emulator.CodeInvalidParameter},
		{"networkId", "other", 400, emulator.CodeInvalidParameter},
		{"sshKeyPair", "other", 400, emulator.CodeInvalidParameter},
	} {
		c.post("/kubernetes-clusters", c.newCluster(1).with(test.field, test.value).String()).
			refused(test.status, test.code).has(test.field, "error", "field")
	}
	if n := len(p.Clusters()) + len(p.Jobs()) + len(p.Networks()); n != 0 {
		t.Errorf("refused requests created %d records", n)
	}
}

// TestBounds checks that Options.MaxWorkers and Options.MaxClusters bound an account.
func TestBounds(t *testing.T) {
	bubble(t, emulator.Options{MaxWorkers: 5, MaxClusters: 1}, func(t *testing.T, p *emulator.Portal, c *caller) {
		id := c.create(c.newCluster(1))
		c.post("/kubernetes-clusters", c.newCluster(1).String()).refused(422, emulator.CodeQuotaExceeded)
		c.post("/kubernetes-clusters/"+id+"/scale", `{"size":6}`).refused(422, emulator.CodeQuotaExceeded)
		c.scale(id, 5).has("succeeded", "status")
		c.scale(id, 5).has("succeeded", "status") // no change
		c.scale(id, 0).has("succeeded", "status")
		if got := p.Clusters()[0]; got.Size != 0 || len(got.Nodes) != 1 {
			t.Errorf("cluster %+v", got)
		}
	})
}

// TestWorkloadFailure checks that clusters that cannot be built become Failed and can only be deleted.
func TestWorkloadFailure(t *testing.T) {
	l := &ledger{fails: errors.New("no machine left")}
	bubble(t, emulator.Options{Workloads: l}, func(t *testing.T, p *emulator.Portal, c *caller) {
		c.wait(c.post("/kubernetes-clusters", c.newCluster(1).String()).want(202).text("jobId")).
			has("failed", "status").has(emulator.CodeInternalError, "error", "code").has(nil, "result")
		id := p.Clusters()[0].ID
		c.post("/kubernetes-clusters/"+id+"/scale", `{"size":2}`).refused(409, emulator.CodeOperationNotAllowed)
		c.get("/kubernetes-clusters/"+id+"/config").refused(409, emulator.CodeOperationNotAllowed)
		c.wait(c.delete("/kubernetes-clusters/"+id).want(202).text("jobId")).has("succeeded", "status")
		if diff := cmp.Diff([]string{id}, l.deletions()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestDurations checks when a job is due and ends: after the time of the options, or of its workload cluster if that takes longer, and after
// the delay of a fault.
func TestDurations(t *testing.T) {
	for name, test := range map[string]struct{ option, workload, fault, want time.Duration }{
		"of the options":          {time.Minute, time.Second, 0, 61 * time.Second},
		"of the workload cluster": {time.Second, time.Minute, 0, 61 * time.Second},
		"none":                    {-1, 0, 0, time.Second},
		"with a fault":            {8 * time.Second, 0, 10 * time.Second, 19 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			opts := emulator.Options{Workloads: &ledger{takes: test.workload}, Durations: emulator.Durations{Pending: time.Second, Create: test.option}}
			if test.fault > 0 {
				opts.Faults = []emulator.Fault{{Path: "/kubernetes-clusters", JobDelay: test.fault}}
			}
			bubble(t, opts, func(t *testing.T, p *emulator.Portal, c *caller) {
				c.create(c.newCluster(1))
				job := p.Jobs()[0]
				if got := job.Ended.Sub(job.Accepted); got != test.want || test.workload < test.option && !job.Ended.Equal(job.Due) {
					t.Errorf("the job took %s, want %s, and was due after %s", got, test.want, job.Due.Sub(job.Accepted))
				}
			})
		})
	}
}

// TestSpread checks that the durations of jobs vary within the given part of their time.
func TestSpread(t *testing.T) {
	options := emulator.Options{Durations: emulator.Durations{Pending: -1, VPC: 100 * time.Second, Spread: 0.2}}
	bubble(t, options, func(t *testing.T, p *emulator.Portal, c *caller) {
		for i := range 40 {
			c.post("/vpcs", fmt.Sprintf(`{"name":"vpc-%d"}`, i)).want(202)
		}
		least, most := time.Hour, time.Duration(0)
		for _, job := range p.Jobs() {
			takes := job.Due.Sub(job.Accepted)
			least, most = min(least, takes), max(most, takes)
		}
		if least < 80*time.Second || least > 90*time.Second || most < 110*time.Second || most > 120*time.Second {
			t.Errorf("jobs take %v to %v", least, most)
		}
	})
}
