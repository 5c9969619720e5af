// SPDX-License-Identifier: Apache-2.0

// Package metrics tells Prometheus how the provider and its portal accounts do. docs/metrics.md lists every metric; a test
// holds the page to this package.
//
// There are two sorts. What happens is counted when it happens, in portal.go: a request that is over, a login,
// a job that has ended. What is so is read when Prometheus asks: the accounts' rate limits from their governors
// (accounts.go), the operations in flight from the annotations of the objects (operations.go), and conditions and workers from
// their status (objects.go). So nothing is left behind
// when an object or an account goes, and a manager that has just started tells the same as the one before it.
//
// Labels have few values, and none that the portal could make up: endpoints are templates without ids, and codes are those
// of the specification. An account is named by an identity Secret that uses it; e-mails and passwords are nowhere.
package metrics

import "github.com/prometheus/client_golang/prometheus"

// namespace is the first word of every name.
const namespace = "capportal"

// Register adds what this package counts, and the collectors of what is so, to a registry: for a manager that is
// controller-runtime's. A registry takes them once.
func Register(registry prometheus.Registerer, accounts *Accounts, operations *Operations) error {
	// Those of what happens belong to the process, as the registry of controller-runtime does.
	for _, c := range []prometheus.Collector{requests, requestDuration, logins, wait, jobDuration, build, accounts, operations} {
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
