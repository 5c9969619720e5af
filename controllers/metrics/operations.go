// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// collectTimeout bounds a read of the cache, which answers at once but before it is filled.
const collectTimeout = 5 * time.Second

var (
	jobsInFlight = newDesc("jobs_in_flight",
		"Jobs of the portal that were accepted and have not been seen to end, by operation.", "operation")
	oldestJobStart = newDesc("oldest_job_start_timestamp_seconds",
		"When the oldest job in flight was asked for, in seconds since 1970, by operation; absent without a job.", "operation")
	unknownOutcomes = newDesc("unknown_outcomes",
		"Creations whose outcome is unknown: held until a person says whether the thing exists, by operation.", "operation")
)

// Operations collects the operations in flight from the annotations of the objects.
type Operations struct {
	// Reader of the manager's cache.
	Reader client.Reader
	// WatchFilterValue of the label cluster.x-k8s.io/watch-filter; empty: all objects count.
	WatchFilterValue string
	// Elected is closed when this manager is the one that acts; others tell nothing, or sums would count twice.
	Elected <-chan struct{}
}

// Describe implements prometheus.Collector.
func (o *Operations) Describe(ch chan<- *prometheus.Desc) {
	ch <- jobsInFlight
	ch <- oldestJobStart
	ch <- unknownOutcomes
}

// Collect implements prometheus.Collector.
func (o *Operations) Collect(ch chan<- prometheus.Metric) {
	select {
	case <-o.Elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	all, err := o.inFlight(ctx)
	if err != nil {
		ctrl.Log.WithName("metrics").Error(err, "Read operations from the cache")
		return
	}
	running, unknown, oldest := map[operation.Type]int{}, map[operation.Type]int{}, map[operation.Type]time.Time{}
	for _, op := range all {
		switch {
		case op.Lost() && !op.Type.Repeatable():
			unknown[op.Type]++
		case op.JobID != "" && !op.Lost():
			running[op.Type]++
			if first, found := oldest[op.Type]; !found || op.Time.Time.Before(first) {
				oldest[op.Type] = op.Time.Time
			}
		}
	}
	for _, t := range operations {
		ch <- gauge(jobsInFlight, float64(running[t]), string(t))
		ch <- gauge(unknownOutcomes, float64(unknown[t]), string(t))
		if start, found := oldest[t]; found {
			ch <- gauge(oldestJobStart, float64(start.Unix()), string(t))
		}
	}
}

// inFlight returns the operations in flight. One that cannot be read shows in a condition of its object.
func (o *Operations) inFlight(ctx context.Context) (all []*operation.Operation, err error) {
	var options []client.ListOption
	if o.WatchFilterValue != "" {
		options = append(options, client.MatchingLabels{clusterv1.WatchLabel: o.WatchFilterValue})
	}
	add := func(obj client.Object) {
		if op, err := operation.Load(obj); err == nil && op.InFlight() {
			all = append(all, op)
		}
	}
	clusters, controlPlanes := &infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}
	for _, list := range []client.ObjectList{clusters, controlPlanes} {
		if err := o.Reader.List(ctx, list, options...); err != nil {
			return nil, err
		}
	}
	for i := range clusters.Items {
		add(&clusters.Items[i])
	}
	for i := range controlPlanes.Items {
		add(&controlPlanes.Items[i])
	}
	return all, nil
}
