// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// object is one operation on a cluster, as a controller carries it out: run is the object's place in the work queue,
// pass one reconcile. At the limiter it keeps nothing but its flow's name and its job's id.
type object struct {
	*fleet
	client *cloud.Client // of the object's manager
	flow   string
	kind   string
	class  ratelimit.Class
	send   func(context.Context) (cloud.Job, error)

	job     cloud.Job
	started time.Time // the job; that is when the portal answered
	noticed time.Time // that the job has ended
	ready   time.Time
}

// creation is the object that creates a cluster.
func (f *fleet) creation(flow string) *object {
	o := &object{fleet: f, client: f.client, flow: flow, kind: "create", class: ratelimit.Creation}
	o.send = func(ctx context.Context) (cloud.Job, error) { return o.client.CreateCluster(ctx, f.request(flow)) }
	return o
}

// run makes passes until the operation has ended: at once, at the time that the last pass named, and when the limiter
// wakes the flow.
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

// pass takes one step and says after which time to make the next one.
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

// look asks for a reservation also right after it has seen the job run: the refusal says when to look again.
func (o *object) look() time.Duration {
	for {
		reservation, err := o.client.ReserveLook(o.flow, cloud.RunningJob{Kind: o.kind, ID: o.job.ID, Started: o.started})
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

// again is what a refusal of the limiter means to a controller: come back at that time. Nothing else may be refused.
func (o *object) again(err error) time.Duration {
	at, ok := cloud.RetryAt(err)
	if !ok || !cloud.IsRateLimited(err) {
		o.t.Error(err)
		return time.Minute
	}
	return time.Until(at)
}
