// SPDX-License-Identifier: Apache-2.0

// Package autoscaler tests the provider together with the real cluster-autoscaler: it runs as a process beside the sandbox,
// with the management cluster and one workload cluster each, as a user would run it.
//
// Each test has a Cluster in a namespace of its own, under a portal account of its own. Pods take three of the four CPUs of a
// node, so a node holds one of them, and a test decides which nodes are idle. What happens is recorded through watches from
// before the autoscaler starts: every value of the replicas, every Pod that ends without an eviction, and every value of the
// annotation scale-down-disabled on a Node. Tests assert these records, the Pods that run in the end, and what the portal did.
//
// The autoscaler's binary is not built here (docs/development/testing.md says where to get it). Without the binary all tests are skipped.
package autoscaler
