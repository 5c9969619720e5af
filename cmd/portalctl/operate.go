// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// operation is a call that the portal answers with a job.
type operation struct {
	kind string // sort of work, for the rate limiter
	what string // for people, such as "create of cluster demo"
	call func(context.Context) (cloud.Job, error)
	// lost returns the advice if the outcome is unknown. It may take long, for example to ask the portal.
	lost func(context.Context) string
	// makes is the kind of resource that the operation creates. If its job has succeeded without an id, the outcome is unknown.
	makes cloud.Kind
	name  string // of the new resource, or ""
	// undone is additional advice if the job has failed.
	undone string
}

// waiting holds the flags of all commands that start jobs.
type waiting struct {
	noWait  bool
	timeout time.Duration
}

func (w *waiting) bind(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.noWait, "no-wait", false, "print the job id and do not wait for the job")
	w.bindTimeout(cmd)
}

func (w *waiting) bindTimeout(cmd *cobra.Command) {
	w.timeout = cloud.StuckAfter
	cmd.Flags().Var((*patience)(&w.timeout), "timeout",
		"how long to wait for the request's turn, and then for the job, which continues afterwards. 0 means forever")
}

// patience is a duration that is not negative.
type patience time.Duration

// String implements pflag.Value.
func (p *patience) String() string { return time.Duration(*p).String() }

// Type implements pflag.Value.
func (p *patience) Type() string { return "duration" }

// Set implements pflag.Value.
func (p *patience) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("must not be negative")
	}
	*p = patience(d)
	return err
}

// errTimeout is the cause of a context that --timeout has ended.
var errTimeout = errors.New("--timeout is over")

// within returns a context that ends after the timeout.
func (w waiting) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, w.timeout, errTimeout)
}

// unsent returns the error of something that came before the request. The timeout may have ended it.
func (w waiting) unsent(ctx context.Context, err error) error {
	if err == nil || !errors.Is(context.Cause(ctx), errTimeout) {
		return err
	}
	return &failure{
		code: exitLater, err: fmt.Errorf("the login or the rate limit took longer than %s, so nothing was changed", w.timeout),
		advice: "run the command again later, or with a longer --timeout",
	}
}

// operate makes the call, follows its job to the end, and prints the job.
func (a *app) operate(ctx context.Context, client *cloud.Client, o operation, w waiting) error {
	job, err := sendChange(ctx, a, client, w, o.what, o.call)
	if err != nil {
		return o.explained(ctx, err)
	}
	if w.noWait && !job.Failed() {
		return a.printJobID(job)
	}
	if !job.Done() {
		if job, err = a.follow(ctx, client, o.kind, o.what+" ("+job.ID+")", job, w); err != nil && !job.Done() {
			return o.explained(ctx, err)
		}
	}
	if err := failed(job); err != nil {
		return errors.Join(a.printJob(job), o.explained(ctx, err))
	}
	id, ok := job.CreatedID(o.makes, o.name)
	if o.makes != "" && !ok {
		return o.explained(ctx, fmt.Errorf("job %s has succeeded, %w", job.ID, errNoID))
	}
	return a.printResult(job, id)
}

// reuse shows the existing resource of a name as the result that its creation would have had. Its record is under the key.
func reuse[T any](a *app, kind, key, name string, there []T, recordOf func(T) map[string]any) error {
	if len(there) > 1 {
		ids := make([]string, len(there))
		for i, one := range there {
			ids[i] = cell(fmt.Sprint(recordOf(one)["id"]))
		}
		return &failure{
			code:   exitRefused,
			err:    fmt.Errorf("several %ss are named %s: %s", kind, name, strings.Join(ids, ", ")),
			advice: "use one of them, or another name",
		}
	}
	result, err := json.Marshal(map[string]any{key: recordOf(there[0])})
	if err != nil {
		return err
	}
	a.say("A %s named %s exists already, so nothing was created. Its parameters were not compared.", kind, name)
	return a.printJob(cloud.Job{Status: cloud.JobSucceeded, Result: result})
}

var errNoID = errors.New("but its result names no id")

// explained adds to an error what is known about the operation.
func (o operation) explained(ctx context.Context, err error) error {
	code, advice := explain(err)
	lost := cloud.IsUnknownOutcome(err) || errors.Is(err, errGone) || errors.Is(err, errNoID)
	switch {
	case lost:
		// This also applies after an interrupt: the user needs the advice then.
		code, advice = exitUnknown, o.lost(context.WithoutCancel(ctx))
	case code == exitJobFailed:
		advice = joined(". ", advice, o.undone)
	}
	return &failure{code: code, err: fmt.Errorf("%s: %w", o.what, err), advice: advice}
}

// joined joins the parts that are not empty.
func joined(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), separator)
}

// repeatable is the advice for operations with an absolute target.
func repeatable(context.Context) string {
	return "run the same command again: it asks for the same result, so it does no harm if the first one succeeded"
}

// longAnswer is how long the program waits for an answer before it says so. A portal may take minutes to answer a creation.
const longAnswer = 10 * time.Second

// maxRefusals bounds how often a change is sent again that the rate limit has refused.
const maxRefusals = 5

// sendChange logs in and makes a call that changes something.
func sendChange[T any](
	ctx context.Context, a *app, client *cloud.Client, w waiting, what string, call func(context.Context) (T, error),
) (result T, err error) {
	login := func(ctx context.Context) error { _, err := client.UserID(ctx); return err }
	return sendAfter(ctx, a, client, login, w, what, call)
}

// sendAfter makes a call that changes something after what has to come first, such as a login. It can be interrupted until the request is
// sent, but not after: losing the answer would leave it unknown whether a cluster was created. (A second Ctrl-C still ends the program.) For the same reason,
// --timeout does not end it then. A
// request that the rate limit refused was not carried out, so the wait for the next turn can be interrupted again.
func sendAfter[T any](
	ctx context.Context, a *app, client *cloud.Client, first func(context.Context) error, w waiting, what string, call func(context.Context) (T, error),
) (result T, err error) {
	before, cancel := w.within(ctx)
	defer cancel()
	for try := 1; ; try++ {
		if err := first(before); err != nil {
			return result, w.unsent(before, err)
		}
		reservation, err := client.Wait(before, what, ratelimit.Mutation)
		if err != nil {
			return result, w.unsent(before, err)
		}
		result, err = sendReserved(ctx, a, reservation, what, call)
		if !cloud.IsRateLimited(err) || try > maxRefusals {
			return result, err
		}
	}
}

// sendReserved sends the request of a change once.
func sendReserved[T any](ctx context.Context, a *app, r *ratelimit.Reservation, what string, call func(context.Context) (T, error)) (T, error) {
	defer r.Cancel()
	stop := context.AfterFunc(ctx, func() { a.say("Interrupted, waiting for the portal's answer to the %s.", what) })
	defer stop()
	late := time.AfterFunc(longAnswer, func() { a.say("The portal has not answered the %s yet. Waiting.", what) })
	defer late.Stop()
	return call(cloud.WithReservation(context.WithoutCancel(ctx), r))
}

// confirm asks before something is destroyed.
func (a *app) confirm(ctx context.Context, yes bool, what string) error {
	if yes {
		return nil
	}
	if a.ask == nil {
		return usageError("add --yes", "there is no terminal to ask for confirmation")
	}
	answer, err := a.ask(ctx, what+" Type yes to go on: ", false)
	if err != nil {
		return err
	}
	if !strings.EqualFold(strings.TrimSpace(answer), "yes") {
		return &failure{code: exitOther, err: errors.New("not confirmed, nothing was changed")}
	}
	return nil
}
