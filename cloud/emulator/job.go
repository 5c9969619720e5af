// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
)

// JobKind is the operation of a job.
type JobKind string

// The kinds of jobs.
const (
	JobCreateCluster  JobKind = "create cluster"
	JobScaleCluster   JobKind = "scale cluster"
	JobUpgradeCluster JobKind = "upgrade cluster"
	JobDeleteCluster  JobKind = "delete cluster"
	JobCreateVPC      JobKind = "create vpc"
	JobCreateNetwork  JobKind = "create network"
)

// JobStatus is one of the specification's four (States and transitions).
type JobStatus string

// The states of a job, in the order in which they come.
const (
	JobPending   JobStatus = "pending"
	JobRunning   JobStatus = "running"
	JobSucceeded JobStatus = "succeeded"
	JobFailed    JobStatus = "failed"
)

// Job is an asynchronous operation, as the portal records it.
type Job struct {
	ID        string    `json:"jobId"`
	Account   string    `json:"account"`
	Kind      JobKind   `json:"kind"`
	ClusterID string    `json:"clusterId,omitempty"`
	Status    JobStatus `json:"status"`
	Forgotten bool      `json:"forgotten,omitempty"` // by a fault: it goes on, and GET says 404
	Accepted  time.Time `json:"accepted"`
	Due       time.Time `json:"due"` // the earliest time at which it can end
	Ended     time.Time `json:"ended,omitzero"`
}

type job struct {
	Job
	result   any
	err      *jobError
	repaired chan struct{} // closed when the portal's operator ends the job. Nil: it is not stuck
}

// isRepaired reports whether the portal's operator has ended the job.
func (j *job) isRepaired() bool {
	select {
	case <-j.repaired:
		return true
	default:
		return false
	}
}

// jobError is why a job failed.
type jobError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *jobError) Error() string { return e.Code + ": " + e.Message }

// wireJob is the documented job record.
type wireJob struct {
	JobID  string    `json:"jobId"`
	Status JobStatus `json:"status"`
	Result any       `json:"result,omitempty"`
	Error  any       `json:"error,omitempty"`
}

// jobSpec is an operation that a job carries out.
type jobSpec struct {
	kind      JobKind
	clusterID string
	takes     time.Duration // at least
	// work does it and returns the job's result.
	work func(ctx context.Context, takes time.Duration) (any, error)
	// undo releases reservations if the job fails before its work. Nil: there are none.
	undo func()
	// spoil marks the results if the job fails after its work. Nil: they stay as they are.
	spoil func()
}

// startJob accepts an operation. The job starts once the request is logged. Callers hold mu.
func (p *Portal) startJob(c *call, o jobSpec) answer {
	now := time.Now()
	if spread := p.opts.Durations.Spread; spread > 0 {
		o.takes = time.Duration((1 + spread*(2*p.faultRand.Float64()-1)) * float64(o.takes))
	}
	j := &job{Job: Job{
		ID: p.newID("job"), Account: c.account, Kind: o.kind, ClusterID: o.clusterID,
		Status: JobPending, Accepted: now, Forgotten: c.faults.forgets(),
		Due: now.Add(max(p.opts.Durations.Pending, 0) + max(o.takes, 0) + c.faults.jobDelay()),
	}}
	if c.faults.stuck(JobStuck) != nil {
		j.repaired = make(chan struct{})
	}
	p.jobs = append(p.jobs, j)
	p.jobsByID[j.ID] = j
	c.note(LogEntry{Object: "job", ID: j.ID, Account: j.Account, To: string(JobPending), Detail: j.detail()})
	p.wg.Add(1) // the call itself is counted, so Close is still waiting
	faults := c.faults
	c.starts = append(c.starts, func() {
		go func() {
			defer p.wg.Done()
			p.run(j, o, faults)
		}()
	})
	return answer{status: http.StatusAccepted, body: wireJob{JobID: j.ID, Status: JobPending}}
}

// refuseByJob accepts a request on a cluster that breaks a rule, and lets its job fail, if the portal checks its rules there
// (Traits.RefusalsByJob).
func (c *call) refuseByJob(r *refusal) (answer, *refusal) {
	p := c.portal
	switch r.code {
	case CodeInvalidParameter, CodeQuotaExceeded, CodeInsufficientCapacity, CodeOperationNotAllowed:
	default:
		return answer{}, r
	}
	if !p.opts.Traits.RefusalsByJob || r.violation || !strings.HasPrefix(c.route.pattern, "/kubernetes-clusters") || c.route.job == "" {
		return answer{}, r
	}
	failed := &jobError{Code: r.code, Message: r.message}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startJob(c, jobSpec{kind: c.route.job, clusterID: c.params["cluster_id"], work: func(context.Context, time.Duration) (any, error) {
		return nil, failed
	}}), nil
}

func (j *job) detail() string {
	if j.ClusterID == "" {
		return string(j.Kind)
	}
	return string(j.Kind) + " " + j.ClusterID
}

// run takes a job through its states. When the portal closes, the job stays where it is.
func (p *Portal) run(j *job, o jobSpec, faults matchedFaults) {
	if sleep(p.ctx, p.opts.Durations.Pending) != nil {
		return
	}
	p.advance(j, JobRunning, nil, nil)
	takes := max(o.takes, 0) + faults.jobDelay()
	var result any
	err := faults.holdJob(p.ctx, JobStuck, j.repaired)
	if err == nil {
		if err = faults.failEarly(); err != nil {
			_ = sleep(p.ctx, takes) // ends early when the portal closes
		}
	}
	switch {
	case p.ctx.Err() != nil:
		return
	case err != nil && o.undo != nil:
		o.undo()
	case err == nil:
		result, err = o.work(p.ctx, takes)
		if late := faults.failLate(); err == nil && late != nil {
			err = late
			if o.spoil != nil {
				o.spoil()
			}
		}
		if err == nil {
			err = faults.holdJob(p.ctx, JobStuckLate, nil)
		}
	}
	if p.ctx.Err() != nil {
		return
	}
	if faults.dropsID() {
		result = struct{}{}
	}
	if err != nil {
		p.advance(j, JobFailed, nil, err)
		return
	}
	p.advance(j, JobSucceeded, result, nil)
}

// advance moves a job to its next state.
func (p *Portal) advance(j *job, to JobStatus, result any, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := LogEntry{Object: "job", ID: j.ID, Account: j.Account, From: string(j.Status), To: string(to), Detail: j.detail()}
	j.Status, j.result = to, result
	if to != JobRunning {
		j.Ended = time.Now()
	}
	if err != nil {
		if !errors.As(err, &j.err) {
			j.err = &jobError{Code: CodeInternalError, Message: "the platform could not finish the operation"}
		}
		e.Detail += ": " + err.Error()
	}
	p.record(e)
}

// getJob answers GET /jobs/{job_id}.
func (p *Portal) getJob(c *call) (answer, *refusal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j := p.jobsByID[c.params["job_id"]]
	if j == nil || j.Account != c.account || j.Forgotten {
		return answer{}, notFound("job", c.params["job_id"])
	}
	out := wireJob{JobID: j.ID, Status: j.Status}
	switch {
	case j.Status == JobSucceeded:
		out.Result = j.result
	case j.Status == JobFailed:
		out.Error = p.opts.Shapes.jobError(j.err)
	}
	return answer{status: http.StatusOK, body: out}, nil
}

// Jobs returns all jobs, oldest first.
func (p *Portal) Jobs() []Job {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Job, 0, len(p.jobs))
	for _, j := range p.jobs {
		out = append(out, j.Job)
	}
	return out
}
