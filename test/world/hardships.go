// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// hardships are faults of the portal that last for longer than one request.
var hardships = []struct {
	name  string
	fault emulator.Fault
}{
	{"scale-downs are not allowed", emulator.Fault{Code: emulator.CodeOperationNotAllowed, Scale: emulator.ScaleDown}},
	{"scale-downs exceed a quota", emulator.Fault{Code: emulator.CodeQuotaExceeded, Scale: emulator.ScaleDown}},
	{"scale-downs fail", emulator.Fault{Job: emulator.JobFails, JobMessage: "an image is being copied", Scale: emulator.ScaleDown}},
	{"scale-downs remove one node and fail", emulator.Fault{Job: emulator.JobFailsHalfway, JobNodes: 1, Scale: emulator.ScaleDown}},
	{"scale-downs are forgotten", emulator.Fault{Job: emulator.JobForgotten, JobDelay: 5 * time.Second, Scale: emulator.ScaleDown}},
	{"answers to scale-downs are lost", emulator.Fault{Cut: true, After: true, JobDelay: 5 * time.Second, Scale: emulator.ScaleDown}},
	{"scale-downs fail, and the cluster needs a repair", emulator.Fault{Job: emulator.JobFails, Alert: true, Scale: emulator.ScaleDown}},
	{"scale-downs remove half and leave Node objects", emulator.Fault{Job: emulator.JobFailsHalfway, LeaveNodes: true, Scale: emulator.ScaleDown}},
	{"the portal drains too, and a drain in vain needs a repair", emulator.Fault{Drain: 5 * time.Second, Alert: true, Scale: emulator.ScaleDown}},
	{"scale-ups add half of the nodes", emulator.Fault{Job: emulator.JobFailsHalfway, Scale: emulator.ScaleUp}},
}

// hardship has scales go wrong for up to 17 minutes.
func (l *life) hardship(n, m int) string {
	l.made++
	drawn := hardships[n%len(hardships)]
	f := drawn.fault
	f.ID, f.Method, f.Path = fmt.Sprint("hardship-", l.made), "POST", "/kubernetes-clusters/{cluster_id}/scale"
	l.hard = true
	l.must(l.Portal.Inject(f))
	l.after(time.Duration(m)*time.Second, func() { l.Portal.RemoveFault(f.ID) })
	return fmt.Sprintf("%s for %d s", drawn.name, m)
}
