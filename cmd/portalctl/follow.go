// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// outageTimeout is how long a portal may not answer while its job runs.
const outageTimeout = 5 * time.Minute

// errGone reports that the portal does not know a job any more that it started.
var errGone = errors.New("the portal no longer knows the job")

// follow looks at a job until it has ended or the time is over, and returns it as it was seen last.
func (a *app) follow(ctx context.Context, client *cloud.Client, kind, label string, job cloud.Job, w waiting) (cloud.Job, error) {
	ctx, cancel := w.within(ctx)
	defer cancel()
	started := time.Now()
	running := ratelimit.RunningJob{Kind: kind, ID: job.ID, Started: started}
	p := &progress{out: a.err, isTerminal: a.live, label: label, started: started}
	p.show(string(job.Status))
	defer p.end()
	heard := started
	for !job.Done() {
		reservation, err := client.ReservePoll(job.ID, running)
		if at, later := cloud.RetryAt(err); later {
			if p.waitUntil(ctx, at) != nil {
				return job, notWaited(ctx, job, w)
			}
			continue
		}
		seen, err := client.Job(cloud.WithReservation(ctx, reservation), job.ID)
		switch {
		case err == nil:
			job, heard = seen, time.Now()
			p.show(string(job.Status))
		case ctx.Err() != nil:
			return job, notWaited(ctx, job, w)
		case cloud.IsNotFound(err):
			return job, fmt.Errorf("%w: %w", errGone, err)
		case cloud.IsRateLimited(err): // the limiter's next refusal says when to come back
			heard = time.Now()
			p.show(fmt.Sprintf("%s when last seen; waiting for the rate limit", job.Status))
		case !isTransient(err) || time.Since(heard) > outageTimeout:
			return job, notFollowed(err, job.ID)
		default:
			p.show(fmt.Sprintf("%s when last seen, but %v; trying again", job.Status, err))
		}
	}
	return job, failed(job)
}

// isTransient reports whether the error is one after which the job is looked at again.
func isTransient(err error) bool {
	return cloud.IsUnavailable(err) || cloud.IsBusy(err)
}

func lookAgain(jobID string) string {
	return "look at it again with 'portalctl jobs wait " + jobID + "'"
}

// notWaited is the failure for a job that runs on when the context has ended: after the timeout, or by an interrupt.
func notWaited(ctx context.Context, job cloud.Job, w waiting) error {
	if errors.Is(context.Cause(ctx), errTimeout) {
		return tooLong(job, w.timeout)
	}
	return &failure{
		code:   exitInterrupted,
		err:    fmt.Errorf("interrupted; job %s runs on at the portal", job.ID),
		advice: lookAgain(job.ID),
	}
}

// notFollowed is the failure for a job that could not be followed any longer.
func notFollowed(err error, jobID string) error {
	code, advice := explain(err)
	return &failure{
		code:   code,
		err:    fmt.Errorf("job %s may still run, but cannot be looked at: %w", jobID, err),
		advice: joined("; ", advice, lookAgain(jobID)),
	}
}

// tooLong is the failure for a job that still runs. The nodes show the progress of a scale or an upgrade, but not to this program.
func tooLong(job cloud.Job, timeout time.Duration) error {
	stuck := ""
	if timeout >= cloud.StuckAfter {
		stuck = ". After half an hour a job counts as stuck, but a scale or an upgrade only if the cluster's nodes (kubectl get nodes) have " +
			"shown no progress for that long. Give the portal's support the id of a stuck job. Do not start the operation again"
	}
	return &failure{
		code:   exitStillRuns,
		err:    fmt.Errorf("job %s is still %s after %s and runs on at the portal", job.ID, job.Status, timeout),
		advice: lookAgain(job.ID) + stuck,
	}
}

// failed returns the error of a job that has failed, or nil.
func failed(job cloud.Job) error {
	if !job.Failed() {
		return nil
	}
	_, advice := explain(job.Error)
	return &failure{code: exitJobFailed, err: fmt.Errorf("job %s has failed: %w", job.ID, job.Error), advice: advice}
}
