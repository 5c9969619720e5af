// SPDX-License-Identifier: Apache-2.0

// Package topology shows, as tests, that the ClusterClass of the release works: with the real topology controller of
// Cluster API's core manager, its webhooks, our manager as its ServiceAccount, and the emulated portal.
//
// What is applied is what the real clusterctl makes of the flavor topology. Each test lives in a namespace of its own,
// under a portal account of its own, in a sandbox that all share. Throughout, every state that the topology controller
// reports is collected: it may say that it waits, but it must never say that it failed, unless that is the test.
package topology
