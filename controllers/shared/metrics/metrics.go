// SPDX-License-Identifier: Apache-2.0

// Package metrics collects what Prometheus reads about the provider and its portal accounts. docs/reference.md lists every metric,
// and a test compares the page with this package.
//
// There are two sorts of metrics. Counters of requests, logins and ended jobs count each event when it happens (portal.go).
// Gauges are read when Prometheus scrapes: the accounts' rate limits from their limiters (accounts.go), and the operations in
// flight and expiring kubeconfigs from the objects (operations.go). So no series is left behind when an object or an account is gone,
// and a manager that has just started reports the same as the one before it. Conditions and workers are metrics of
// kube-state-metrics (config/metrics/kube-state-metrics).
//
// Labels have few values, and the portal cannot invent any: endpoints are templates without ids, and codes are those of the
// specification. An account is named by an identity Secret that uses it. No metric has an e-mail address or a password.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/capportal/cluster-api-provider-portal/version"
)

// namespace is the first word of every name.
const namespace = "capportal"

// Register adds all metrics of this package to a registry, which for a manager is controller-runtime's. It must be called once
// per registry.
func Register(registry prometheus.Registerer, accounts *Accounts, operations *Operations) error {
	// The counters belong to the process, like the registry of controller-runtime.
	for _, c := range []prometheus.Collector{requests, requestDuration, logins, wait, jobDuration, undrained, build, accounts, operations} {
		if err := registry.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// gauge is one value of a collector.
func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// build is the usual info metric: a 1, whose labels name the build that runs.
var build = func() prometheus.Collector {
	info := version.Get()
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Always 1. The labels describe the manager's build.",
		ConstLabels: prometheus.Labels{"version": info.Version, "commit": info.Commit, "go_version": info.Go},
	})
	g.Set(1)
	return g
}()
