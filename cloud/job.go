// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// JobStatus is the state of an asynchronous operation (specification, "States and transitions").
type JobStatus string

// The states of a job. Any other word counts as not done.
const (
	JobPending   JobStatus = "pending"
	JobRunning   JobStatus = "running"
	JobSucceeded JobStatus = "succeeded"
	JobFailed    JobStatus = "failed"
)

// StuckAfter is how long a job may go on without progress before it counts as stuck (specification, "Jobs and other endpoints").
const StuckAfter = 30 * time.Minute

// IsStuck reports whether a job counts as stuck that has last shown progress at a time. The nodes of its cluster show the progress of a scale
// or an upgrade: they come, go, or change their version. Such a job may take longer than StuckAfter, because the upgrade of 5 nodes
// takes 15 to 20 minutes (specification, "Kubernetes endpoints", rule 2). A job that shows nothing counts from its start.
func IsStuck(progress time.Time) bool { return time.Since(progress) > StuckAfter }

// Job is an asynchronous operation of the portal.
type Job struct {
	ID     string
	Status JobStatus
	// Result contains the created resource. It is present if the job has succeeded.
	Result json.RawMessage
	// Error is the reason of a failed job, never nil for one. The predicates (IsQuota, ...) work on it.
	Error *Error
}

// Done reports whether the job has ended, well or not.
func (j Job) Done() bool { return j.Status == JobSucceeded || j.Status == JobFailed }

// Failed reports whether the job has ended without doing its work.
func (j Job) Failed() bool { return j.Status == JobFailed }

// CreatedID is the id of the created resource of that kind and, if it was created with one, that name. The result may contain
// other resources, too: the record with the name is the one that was created, or else the one under a
// key of its kind. If neither is known, the result must have only one candidate.
func (j Job) CreatedID(kind Kind, name string) (string, bool) {
	id, _ := createdID(j.Result, kind, name)
	return id, id != ""
}

// Job polls a job once. Client.ReservePoll says when.
func (c *Client) Job(ctx context.Context, jobID string) (Job, error) {
	request, a, err := c.ask(ctx, routeJob, jobID, nil)
	if err != nil {
		return Job{}, err
	}
	job, ok := parseJob(a.body, request.secrets())
	if !ok || job.Status == "" {
		return Job{}, unreadable(request, a, "no job with a status")
	}
	job.ID = jobID
	c.Limiter().ObserveJob(jobID, job.Done())
	c.noteShape(job, a.body)
	return job, nil
}

// startJob makes a call that the portal answers with 202 and a job. An answer without a job id leaves the outcome
// unknown: a job was started that cannot be looked at.
func (c *Client) startJob(ctx context.Context, r route, segment string, body any) (Job, error) {
	request, a, err := c.ask(ctx, r, segment, body)
	if err != nil {
		return Job{}, err
	}
	job := startedJob(request, a)
	if job.ID == "" {
		return Job{}, unreadable(request, a, "no jobId")
	}
	return job, nil
}

// startedJob returns the job that a request has started. Its ID is empty if the answer names no job.
func startedJob(c *call, a *answer) Job {
	job, _ := parseJob(a.body, c.secrets())
	if job.Status == "" {
		job.Status = JobPending // rule 1 of "States and transitions"
	}
	return job
}

type jobBody struct {
	JobID  jsonText        `json:"jobId"`
	Status jsonText        `json:"status"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// parseJob reads a job record. The error may be an object or a string, since the specification does not show which.
func parseJob(body []byte, secrets []string) (Job, bool) {
	var b jobBody
	if !isObject(body) || json.Unmarshal(body, &b) != nil {
		return Job{}, false
	}
	job := Job{
		ID:     string(b.JobID),
		Status: readStatus(string(b.Status), secrets),
		Result: b.Result,
	}
	if job.Failed() {
		job.Error = jobError(b.Error, secrets)
	}
	return job, true
}

// noteShape reports the shape of a job that has ended. The kind of the created resource is not known here, so any kind will do.
func (c *Client) noteShape(j Job, body []byte) {
	if j.Failed() {
		var b jobBody
		_ = json.Unmarshal(body, &b) // it has been read before
		shape := jobErrorString
		if _, whole := parseError(b.Error, nil); whole {
			shape = jobErrorWhole
		} else if isObject(b.Error) {
			shape = jobErrorObject
		}
		c.note(gapJobError, shape)
		return
	}
	for _, kind := range kinds {
		if _, shape := createdID(j.Result, kind, ""); shape != "" {
			c.note(gapCreatedID, shape)
			return
		}
	}
}

// readStatus reads a job's status. The documented words are never secrets, even if a password is one of them.
func readStatus(text string, secrets []string) JobStatus {
	switch status := JobStatus(strings.ToLower(text)); status {
	case JobPending, JobRunning, JobSucceeded, JobFailed:
		return status
	}
	return JobStatus(clean(strings.ToLower(text), maxName, secrets))
}

func jobError(raw json.RawMessage, secrets []string) *Error {
	if inner, documented := parseError(raw, secrets); documented {
		return inner // the whole error shape inside the field error
	}
	e := parseReason(raw, secrets)
	if e.Code == "" && e.Message == "" {
		e.Message = "no reason can be shown"
	}
	return e
}
