// SPDX-License-Identifier: Apache-2.0

// Package topology tests that the ClusterClass of the release works. The tests use the real topology controller of Cluster
// API's core manager, its webhooks, our manager as its ServiceAccount, and the emulated portal.
//
// The tests apply the flavor topology as the real clusterctl generates it. All tests share one sandbox, and each test has a
// namespace and a portal account of its own. A test collects every failure that the topology controller reports. The topology
// controller may report that it waits, but never that it failed, except in tests that cause a failure.
package topology
