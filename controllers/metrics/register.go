// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// namespace is the first word of every name.
const namespace = "capportal"

// Register adds what this package counts, and the collectors of what is so, to a registry: for a manager that is
// controller-runtime's. A registry takes them once.
func Register(registry prometheus.Registerer, accounts *Accounts, operations *Operations) error {
	for _, c := range append(counted(), build, accounts, operations) {
		if err := registry.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// counted are the metrics of what happens. They belong to the process, as the registry of controller-runtime does.
func counted() []prometheus.Collector {
	return []prometheus.Collector{requests, requestDuration, logins, wait, jobDuration}
}

// gauge is one value of a collector.
func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}
