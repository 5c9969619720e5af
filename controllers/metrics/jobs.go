// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capportal/cluster-api-provider-portal/controllers/journal"
)

// operations are the values of the label operation.
var operations = []journal.Type{journal.Create, journal.Scale, journal.Upgrade, journal.Delete, journal.CreateNetwork}

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
	for _, operation := range operations {
		jobDuration.WithLabelValues(string(operation), jobSucceeded)
		jobDuration.WithLabelValues(string(operation), jobFailed)
	}
}

// JobEnded counts a job that was seen to have ended, and how long it took.
func JobEnded(operation journal.Type, failed bool, took time.Duration) {
	outcome := jobSucceeded
	if failed {
		outcome = jobFailed
	}
	jobDuration.WithLabelValues(string(operation), outcome).Observe(took.Seconds())
}
