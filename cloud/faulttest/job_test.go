// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// jobs has the client's result for faulty jobs, with the job's error as an object and as a string. The result is the class of the job's
// error if the job failed, the class of the client's error if the job was not found, "running" after half an hour, or whether the created
// record has an id.
const jobs = `
                                 CreateVPC     CreateNetwork CreateCluster ScaleCluster  UpgradeCluster DeleteCluster
nothing                          id            id            id            id            id             no-id
stuck                            running       running       running       running       running        running
stuck-late                       running       running       running       running       running        running
forgotten                        not-found     not-found     not-found     not-found     not-found      not-found
without-id                       no-id         no-id         no-id         no-id         no-id          no-id
failed INVALID_PARAMETER         invalid       invalid       invalid       invalid       invalid        invalid
failed RESOURCE_NOT_FOUND        not-found     not-found     not-found     not-found     not-found      not-found
failed RESOURCE_BUSY             busy          busy          busy          busy          busy           busy
failed QUOTA_EXCEEDED            quota         quota         quota         quota         quota          quota
failed INSUFFICIENT_CAPACITY     capacity      capacity      capacity      capacity      capacity       capacity
failed OPERATION_NOT_ALLOWED     not-allowed   not-allowed   not-allowed   not-allowed   not-allowed    not-allowed
failed BRAND_NEW                 none          none          none          none          none           none
failed-late QUOTA_EXCEEDED       quota         quota         quota         quota         quota          quota
`

// TestJobs checks the table.
func TestJobs(t *testing.T) {
	for _, r := range rows(t, jobs, jobFault) {
		for _, m := range methods {
			want, starts := r.want[m.name]
			if !starts {
				continue
			}
			for _, shape := range []emulator.JobErrorShape{emulator.JobErrorObject, emulator.JobErrorString} {
				t.Run(r.name+"/"+m.name+"/"+string(shape), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						if got := m.follow(t, shape, r.faults[0]); got != want {
							t.Errorf("%s, want %s", got, want)
						}
					})
				})
			}
		}
	}
}

func jobFault(name string) []emulator.Fault {
	how, code, _ := strings.Cut(name, " ")
	if how == "nothing" {
		return []emulator.Fault{{Job: emulator.JobStuck, Nth: 2}}
	}
	f := emulator.Fault{Job: emulator.JobFault(how), JobCode: code}
	if code != "" {
		f.JobMessage = "a reason"
	}
	return []emulator.Fault{f}
}

// follow starts a job and polls it for half an hour.
func (m method) follow(t *testing.T, shape emulator.JobErrorShape, f emulator.Fault) string {
	s := newScene(t, m.path, emulator.Options{Shapes: emulator.Shapes{JobError: shape, NetworkStatus: http.StatusAccepted}})
	if f.Path == "" {
		f.Method, f.Path = m.verb, m.path
	}
	if err := s.portal.Inject(f); err != nil {
		t.Fatal(err)
	}
	if err := m.call(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for range 360 {
		job, err := s.client.Job(t.Context(), s.job)
		switch {
		case err != nil:
			return strings.Join(class(err), " and ")
		case job.Failed():
			return s.reason(job)
		case job.Done():
			if id, ok := job.CreatedID("", ""); ok && id != "" {
				return "id"
			}
			return "no-id"
		}
		time.Sleep(5 * time.Second)
	}
	return "running"
}

// reason returns the class of a failed job's error. An unknown code has no class, because a job has no status that could decide instead.
func (s *scene) reason(job cloud.Job) string {
	s.Helper()
	if job.Error == nil || job.Error.Message == "" {
		s.Errorf("the failed job's error is %v", job.Error)
		return "none"
	}
	found := class(job.Error)
	if len(found) == 0 {
		return "none"
	}
	return strings.Join(found, " and ")
}
