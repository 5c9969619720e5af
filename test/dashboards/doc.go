// SPDX-License-Identifier: Apache-2.0

// Package dashboards tests what config/metrics has for Prometheus, Grafana and kube-state-metrics.
//
// promtool, of Debian's package prometheus, checks the rules and runs the cases of rules.test.yaml. Without promtool that test is
// skipped. The rest of make test compares the files with each other and with the release.
//
// make test-dashboards adds a run on real servers (-live): a sandbox takes a cluster through its life, a real Prometheus scrapes its
// manager and a real kube-state-metrics, and every query of every panel and variable has to find data. There are no exceptions:
// queries for what does not happen in a healthy life return 0 there.
package dashboards
