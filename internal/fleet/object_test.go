// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// object is one operation on a cluster, as a controller carries it out: run plays the work queue, and pass is one reconcile. It identifies
// itself to the limiter only by its flow's name and its job's id.
type object struct {
	*fleet
	client *cloud.Client // of the object's manager
	flow   string
	kind   string
	class  ratelimit.Class
	send   func(context.Context) (cloud.Job, error)

	job     cloud.Job
	started time.Time // when the portal answered that the job had started
	noticed time.Time // when the object noticed the end of the job
	ready   time.Time
}

// creation returns an object that creates a cluster.
func (f *fleet) creation(flow string) *object {
	o := &object{fleet: f, client: f.client, flow: flow, kind: "create", class: ratelimit.Creation}
	o.send = func(ctx context.Context) (cloud.Job, error) { return o.client.CreateCluster(ctx, f.request(flow)) }
	return o
}

// run makes passes until the operation has ended: at once, at the time that the last pass returned, and when the limiter wakes the flow.
func (o *object) run() {
	for o.ready.IsZero() {
		timer := time.NewTimer(o.pass())
		select {
		case <-timer.C:
		case <-o.wakes[o.flow]:
			timer.Stop()
		}
	}
}

// pass takes one step and returns the time until the next one.
func (o *object) pass() time.Duration {
	switch {
	case o.job.ID == "":
		return o.begin()
	case o.noticed.IsZero():
		return o.look()
	case o.kind != "create":
		o.ready = o.noticed
		return 0
	}
	id, _ := o.job.CreatedID("cluster", o.flow)
	if _, err := o.client.Kubeconfig(cloud.WithFlow(o.t.Context(), o.flow), id); err != nil {
		return o.again(err)
	}
	o.ready = time.Now()
	return 0
}

func (o *object) begin() time.Duration {
	reservation, err := o.client.Reserve(o.flow, o.class)
	if err != nil {
		return o.again(err)
	}
	defer reservation.Cancel()
	job, err := o.send(cloud.WithReservation(o.t.Context(), reservation))
	if err != nil {
		return o.again(err)
	}
	o.job, o.started = job, time.Now()
	return o.look()
}

// look asks for a reservation even if it has just seen that the job is running, because the refusal says when to look again.
func (o *object) look() time.Duration {
	for {
		reservation, err := o.client.ReservePoll(o.flow, ratelimit.RunningJob{Kind: o.kind, ID: o.job.ID, Started: o.started})
		if err != nil {
			return o.again(err)
		}
		job, err := o.client.Job(cloud.WithReservation(o.t.Context(), reservation), o.job.ID)
		reservation.Cancel()
		if err != nil {
			return o.again(err)
		}
		if job.Done() {
			o.job, o.noticed = job, time.Now()
			return 0
		}
	}
}

// again returns the time until RetryAt, as a controller would after a refusal of the limiter. Any other error fails the test.
func (o *object) again(err error) time.Duration {
	at, ok := cloud.RetryAt(err)
	if !ok || !cloud.IsRateLimited(err) {
		o.t.Error(err)
		return time.Minute
	}
	return time.Until(at)
}
