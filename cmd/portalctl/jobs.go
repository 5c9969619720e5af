// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

func (a *app) jobsCommand() *cobra.Command {
	return group("jobs", "Asynchronous operations", a.jobsGet(), a.jobsWait())
}

func (a *app) jobsGet() *cobra.Command {
	return &cobra.Command{
		Use:   "get JOB_ID",
		Short: "Look at a job once",
		Long: `Look at a job once: pending and running jobs have not ended, succeeded ones have a result, failed ones an error.
The exit code is 0 for every status. With 'jobs wait' it depends on the job.`,
		Args: cobra.ExactArgs(1),
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, args []string) error {
			job, err := client.Job(ctx, args[0])
			if err != nil {
				return err
			}
			return a.printJob(job)
		}),
	}
}

func (a *app) jobsWait() *cobra.Command {
	var w waiting
	cmd := &cobra.Command{
		Use:   "wait JOB_ID",
		Short: "Wait until a job has ended",
		Long:  "Wait until a job has ended, and show it. The exit code says how it ended.",
		Args:  cobra.ExactArgs(1),
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, args []string) error {
			return a.waitForJob(ctx, client, args[0], w)
		}),
	}
	w.bindTimeout(cmd)
	return cmd
}

func (a *app) waitForJob(ctx context.Context, client *cloud.Client, id string, w waiting) error {
	ctx, cancel := w.within(ctx)
	defer cancel()
	job, err := client.Job(ctx, id)
	err = w.unsent(ctx, err)
	if err == nil && !job.Done() {
		job, err = a.follow(ctx, client, "job", "job "+id, job, w)
	} else if err == nil {
		err = failed(job)
	}
	if job.Done() {
		return errors.Join(a.printJob(job), err)
	}
	return err
}

// jobRecord is a job as the specification has it.
type jobRecord struct {
	JobID  string          `json:"jobId,omitempty"`
	Status cloud.JobStatus `json:"status"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *errorRecord    `json:"error,omitempty"`
}

// errorRecord is the error object of the specification.
type errorRecord struct {
	Code      string `json:"code,omitempty"`
	Message   string `json:"message,omitempty"`
	Field     string `json:"field,omitempty"`
	RequestID string `json:"requestId,omitempty"`
}

func recordOf(job cloud.Job) jobRecord {
	r := jobRecord{JobID: job.ID, Status: job.Status, Result: job.Result}
	if e := job.Error; e != nil {
		r.Error = &errorRecord{Code: string(e.Code), Message: e.Message, Field: e.Field, RequestID: e.RequestID}
	}
	return r
}

func (a *app) printJob(job cloud.Job) error {
	id, _ := job.CreatedID("", "")
	return a.printResult(job, id)
}

// printResult prints a job whose created resource is known. With --no-wait, it prints what a command prints then.
func (a *app) printResult(job cloud.Job, id string) error {
	if a.noWait {
		return a.printJobID(job)
	}
	trouble := ""
	if job.Error != nil {
		trouble = job.Error.Error()
	}
	return a.print(recordOf(job), table{
		header: []string{"JOB ID", "STATUS", "RESULT ID", "ERROR"},
		rows:   [][]string{{job.ID, string(job.Status), id, trouble}},
	})
}

// printJobID prints the bare id, for scripts. What existed before, or was created at once, has no job: then it prints nothing, and people
// read the id of the resource. Programs that read JSON get the whole record.
func (a *app) printJobID(job cloud.Job) error {
	if a.output != formatTable {
		return a.printValue(recordOf(job))
	}
	if job.ID == "" {
		id, _ := job.CreatedID("", "")
		a.say("There is no job to wait for. The id of the result is %s.", cell(id))
		return nil
	}
	_, err := fmt.Fprintln(a.out, cell(job.ID))
	return err
}
