// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/capportal/cluster-api-provider-portal/version"
)

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
