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
	objects, err := o.objects(ctx)
	if err != nil {
		ctrl.Log.WithName("metrics").Error(err, "Read operations from the cache")
		return
	}
	sums := map[operation.Type]*sum{}
	for _, t := range operations {
		sums[t] = &sum{}
	}
	for _, obj := range objects {
		op, err := operation.Load(obj)
		if err != nil || !op.InFlight() || sums[op.Type] == nil {
			continue // one that cannot be read shows in a condition
		}
		sums[op.Type].add(op)
	}
	for t, s := range sums {
		s.collect(ch, string(t))
	}
}

// objects are those that have a operation.
func (o *Operations) objects(ctx context.Context) ([]client.Object, error) {
	var options []client.ListOption
	if o.WatchFilterValue != "" {
		options = append(options, client.MatchingLabels{clusterv1.WatchLabel: o.WatchFilterValue})
	}
	clusters, controlPlanes := &infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}
	for _, list := range []client.ObjectList{clusters, controlPlanes} {
		if err := o.Reader.List(ctx, list, options...); err != nil {
			return nil, err
		}
	}
	var objects []client.Object
	for i := range clusters.Items {
		objects = append(objects, &clusters.Items[i])
	}
	for i := range controlPlanes.Items {
		objects = append(objects, &controlPlanes.Items[i])
	}
	return objects, nil
}

// sum of the operations of one type.
type sum struct {
	running, unknown int
	oldest           time.Time
}

func (s *sum) add(op *operation.Operation) {
	switch {
	case op.Lost() && !op.Type.Repeatable():
		s.unknown++
	case op.Lost():
	case op.JobID != "":
		s.running++
		if s.oldest.IsZero() || op.Time.Time.Before(s.oldest) {
			s.oldest = op.Time.Time
		}
	}
}

func (s *sum) collect(ch chan<- prometheus.Metric, operation string) {
	ch <- gauge(jobsInFlight, float64(s.running), operation)
	ch <- gauge(unknownOutcomes, float64(s.unknown), operation)
	if s.running > 0 {
		ch <- gauge(oldestJobStart, float64(s.oldest.Unix()), operation)
	}
}
