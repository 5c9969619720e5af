// SPDX-License-Identifier: Apache-2.0

// Package autoscaler tests the provider together with the real cluster-autoscaler. As a user would run it, each autoscaler is a process
// that serves the management cluster and one workload cluster.
//
// Each test has a Cluster in its own namespace, under its own portal account. Pods take three of the four CPUs of a node, so a node holds
// one of them, and a test decides which nodes are idle. Watches record, from before the autoscaler starts, every value of the replicas and
// every Pod that ends without an eviction. Tests check these records, the Pods that run in the end, and the portal's actions.
//
// make does not build the autoscaler (docs/development/testing.md says where to get it). Without the binary all tests are skipped.
package autoscaler
