// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// collectTimeout bounds a read of the cache. The cache answers at once, except before it is filled.
const collectTimeout = 5 * time.Second

var (
	jobsInFlight = newDesc("jobs_in_flight",
		"Jobs that the portal accepted and that have not ended as far as the provider knows, by operation.", "operation")
	oldestJobStart = newDesc("oldest_job_start_timestamp_seconds",
		"Time at which the oldest job in flight was requested, in seconds since 1970, by operation. Absent without a job.", "operation")
	unknownOutcomes = newDesc("unknown_outcomes",
		"Creations whose outcome is unknown, held until a person decides, by operation.", "operation")
	kubeconfigExpires = newDesc("kubeconfig_expires_timestamp_seconds",
		"Time at which the client certificate in the kubeconfig of a Cluster (namespace/name) expires, in seconds since 1970. Absent unless that is soon.",
		"cluster")
)

// Operations collects the operations in flight from the annotations of the objects, and from their status which kubeconfigs expire soon.
type Operations struct {
	// Reader of the manager's cache.
	Reader client.Reader
	// WatchFilterValue of the label cluster.x-k8s.io/watch-filter. If it is empty, all objects count.
	WatchFilterValue string
	// Elected is closed when this manager is the leader. Others report no objects, or sums would count twice.
	Elected <-chan struct{}
}

// Describe implements prometheus.Collector.
func (o *Operations) Describe(ch chan<- *prometheus.Desc) {
	ch <- jobsInFlight
	ch <- oldestJobStart
	ch <- unknownOutcomes
	ch <- kubeconfigExpires
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
	all, err := o.readObjects(ctx)
	if err != nil {
		ctrl.Log.WithName("metrics").Error(err, "Failed to read operations from the cache")
		return
	}
	all.collectOperations(ch)
	for i := range all.controlPlanes.Items {
		cp := &all.controlPlanes.Items[i]
		if expires := cp.Status.KubeconfigExpires; expires != nil {
			ch <- gauge(kubeconfigExpires, float64(expires.Unix()), cp.Namespace+"/"+cmp.Or(cp.Labels[clusterv1.ClusterNameLabel], cp.Name))
		}
	}
}

// objects are the objects with operations.
type objects struct {
	clusters      infrav1.PortalClusterList
	controlPlanes infrav1.PortalControlPlaneList
}

// readObjects reads the objects that this manager reconciles.
func (o *Operations) readObjects(ctx context.Context) (*objects, error) {
	var options []client.ListOption
	if o.WatchFilterValue != "" {
		options = append(options, client.MatchingLabels{clusterv1.WatchLabel: o.WatchFilterValue})
	}
	all := &objects{}
	for _, list := range []client.ObjectList{&all.clusters, &all.controlPlanes} {
		if err := o.Reader.List(ctx, list, options...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (all *objects) collectOperations(ch chan<- prometheus.Metric) {
	running, unknown, oldest := map[operation.Type]int{}, map[operation.Type]int{}, map[operation.Type]time.Time{}
	for _, op := range all.inFlight() {
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

// inFlight returns the operations in flight. One that cannot be read is reported in a condition of its object.
func (all *objects) inFlight() (found []*operation.Operation) {
	add := func(obj client.Object) {
		if state, err := operation.Load(obj); err == nil && state.Op() != nil {
			found = append(found, state.Op())
		}
	}
	for i := range all.clusters.Items {
		add(&all.clusters.Items[i])
	}
	for i := range all.controlPlanes.Items {
		add(&all.controlPlanes.Items[i])
	}
	return found
}
