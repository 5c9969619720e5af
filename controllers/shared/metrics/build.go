// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/capportal/cluster-api-provider-portal/version"
)

// coreTested is 1 if the provider was tested with the running version of core.
var coreTested = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Namespace: namespace, Name: "core_tested", Help: "1 if the provider was tested with this version of Cluster API core, else 0.",
}, []string{"version"})

// ReportCore sets the version of core that runs.
func ReportCore(version string, tested bool) {
	coreTested.Reset()
	coreTested.WithLabelValues(version).Set(map[bool]float64{true: 1}[tested])
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
