// SPDX-License-Identifier: Apache-2.0

// Package dashboards tests the files in config/metrics for Prometheus, Grafana and kube-state-metrics.
//
// promtool, from Debian's package prometheus, checks the rules and runs the cases of rules.test.yaml. Without promtool that test is
// skipped. The other tests of make test compare the files with each other. TestMonitoring of package release compares them with the release.
//
// make test-dashboards adds a run on real servers (-live). A sandbox takes a cluster through its life, and a real Prometheus scrapes the
// manager and a real kube-state-metrics. Every query of every panel and variable must find data, without exceptions: queries for events
// that do not happen in a healthy life return 0.
package dashboards
