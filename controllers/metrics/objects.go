// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

var (
	objectConditions = newDesc("conditions",
		"PortalClusters and PortalControlPlanes whose condition has this status and reason.", "condition", "kind", "reason", "status")
	workers = newDesc("workers",
		"Workers of all portal clusters, by state: desired, size (accepted by the portal), nodes, or claimed (by a Machine).", "state")
)

// objects are the objects that the gauges are computed from.
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

// condition is one set of labels of the metric.
type condition struct {
	kind, name, reason string
	status             metav1.ConditionStatus
}

// collectConditions counts objects, so that a fleet of any size has few series. kube-state-metrics has a series for each object
// (config/metrics/kube-state-metrics).
func (all *objects) collectConditions(ch chan<- prometheus.Metric) {
	counts := map[condition]int{}
	count := func(kind string, conditions []metav1.Condition) {
		for _, c := range conditions {
			counts[condition{kind: kind, name: c.Type, reason: c.Reason, status: c.Status}]++
		}
	}
	for i := range all.clusters.Items {
		count("PortalCluster", all.clusters.Items[i].Status.Conditions)
	}
	for i := range all.controlPlanes.Items {
		count("PortalControlPlane", all.controlPlanes.Items[i].Status.Conditions)
	}
	for c, n := range counts {
		ch <- gauge(objectConditions, float64(n), c.name, c.kind, c.reason, string(c.status))
	}
}

func (all *objects) collectWorkers(ch chan<- prometheus.Metric) {
	var sum infrav1.WorkerCounts
	for i := range all.controlPlanes.Items {
		if counts := all.controlPlanes.Items[i].Status.Workers; counts != nil {
			sum.Desired += counts.Desired
			sum.Size += counts.Size
			sum.Nodes += counts.Nodes
			sum.Claimed += counts.Claimed
		}
	}
	ch <- gauge(workers, float64(sum.Desired), "desired")
	ch <- gauge(workers, float64(sum.Size), "size")
	ch <- gauge(workers, float64(sum.Nodes), "nodes")
	ch <- gauge(workers, float64(sum.Claimed), "claimed")
}
