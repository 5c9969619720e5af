// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

var (
	requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "portal_requests_total",
		Help: "Requests sent to the portal, including logins and repetitions, by endpoint, HTTP status (none: no answer) and the portal's error code.",
	}, []string{"endpoint", "status", "code"})

	requestDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "portal_request_duration_seconds",
		Help:    "Duration of requests to the portal, from the start to the end of the answer, by endpoint.",
		Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
	}, []string{"endpoint"})

	logins = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "portal_logins_total",
		Help: "Logins to the portal, including the second factor, by outcome: succeeded, refused (the credentials or the code), or failed (no usable answer).",
	}, []string{"outcome"})

	wait = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "rate_limit_wait_seconds",
		Help:    "Time that requests waited for the account's rate limit before they were sent, by class: mutation, creation, read, poll or login.",
		Buckets: []float64{0.1, 1, 5, 15, 30, 60, 120, 300, 600, 1200},
	}, []string{"class"})

	jobDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "job_duration_seconds",
		Help:    "Duration of the portal's jobs, from the request to the poll that saw their end, by operation and outcome: succeeded or failed.",
		Buckets: []float64{10, 30, 60, 120, 180, 300, 450, 600, 900, 1200, 1800, 3600},
	}, []string{"operation", "outcome"})
)

// undrained counts for a cluster, unlike the others: an alert about killed Pods has to name it, and most clusters never have one.
var undrained = prometheus.NewCounterVec(prometheus.CounterOpts{
	Namespace: namespace, Name: "undrained_workers_removed_total",
	Help: "Worker nodes that the portal removed although they were not drained, so Pods were killed without an eviction, by control plane.",
}, []string{"namespace", "name"})

// UndrainedRemoved counts worker nodes of a control plane that the portal removed although they were not drained.
func UndrainedRemoved(namespace, name string, nodes int) {
	undrained.WithLabelValues(namespace, name).Add(float64(nodes))
}

// operations are the values of the label operation.
var operations = []operation.Type{operation.Create, operation.Scale, operation.Upgrade, operation.Delete, operation.CreateNetwork, operation.CreateVPC}

// The outcomes of logins and jobs.
const (
	succeeded = "succeeded"
	refused   = "refused"
	failed    = "failed"
)

func init() {
	// A counter that exists from the start shows its first increase.
	for _, outcome := range []string{succeeded, refused, failed} {
		logins.WithLabelValues(outcome)
	}
	for _, t := range operations {
		jobDuration.WithLabelValues(string(t), succeeded)
		jobDuration.WithLabelValues(string(t), failed)
	}
}

// JobEnded counts a job that was seen to have ended, and how long it took.
func JobEnded(t operation.Type, hasFailed bool, took time.Duration) {
	outcome := succeeded
	if hasFailed {
		outcome = failed
	}
	jobDuration.WithLabelValues(string(t), outcome).Observe(took.Seconds())
}

// ObserveCall counts a request to the portal. It is used as cloud.Config.Observe.
func ObserveCall(c cloud.Call) {
	requests.WithLabelValues(c.Endpoint, status(c.Status), string(c.Code)).Inc()
	requestDuration.WithLabelValues(c.Endpoint).Observe(c.Duration.Seconds())
	wait.WithLabelValues(c.Class.String()).Observe(c.Waited.Seconds())
}

// ObserveLogin counts how a login ended. It is used as cloud.Config.ObserveLogin. A login that waits for the rate limit has not
// ended.
func ObserveLogin(err error) {
	switch {
	case err == nil:
		logins.WithLabelValues(succeeded).Inc()
	case cloud.IsRateLimited(err):
	case cloud.IsUnauthorized(err), cloud.IsMFARequired(err):
		logins.WithLabelValues(refused).Inc()
	default:
		logins.WithLabelValues(failed).Inc()
	}
}

// status returns the HTTP status as a label. A status unknown to HTTP counts as its class, otherwise the portal would decide how
// many series exist.
func status(code int) string {
	switch {
	case code == 0:
		return "none"
	case http.StatusText(code) != "":
		return strconv.Itoa(code)
	}
	return strconv.Itoa(code/100) + "xx"
}
