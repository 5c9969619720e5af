// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// operations are the values of the label operation.
var operations = []operation.Type{operation.Create, operation.Scale, operation.Upgrade, operation.Delete, operation.CreateNetwork}

// The outcomes of jobs.
const (
	jobSucceeded = "succeeded"
	jobFailed    = "failed"
)

var jobDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Namespace: namespace, Name: "job_duration_seconds",
	Help:    "How long jobs of the portal took, from the request to the look that saw their end, by operation and outcome: succeeded or failed.",
	Buckets: []float64{10, 30, 60, 120, 180, 300, 450, 600, 900, 1200, 1800, 3600},
}, []string{"operation", "outcome"})

func init() {
	for _, t := range operations {
		jobDuration.WithLabelValues(string(t), jobSucceeded)
		jobDuration.WithLabelValues(string(t), jobFailed)
	}
}

// JobEnded counts a job that was seen to have ended, and how long it took.
func JobEnded(t operation.Type, failed bool, took time.Duration) {
	outcome := jobSucceeded
	if failed {
		outcome = jobFailed
	}
	jobDuration.WithLabelValues(string(t), outcome).Observe(took.Seconds())
}
