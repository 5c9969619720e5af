// SPDX-License-Identifier: Apache-2.0

// Package fleet measures the client and its limiter with many clusters on one account of the emulator at its true
// limit, in virtual time and without Kubernetes. Beside its tests it holds the bound, which hack/fleet uses too:
//
//	fleet_test.go   the bars, and the command line of larger runs: make bench-fleet-virtual N=5000
//	object_test.go  behaves like a controller's work queue: an object acts when it is woken or when its time has come
//	bound.go        how fast a client could be that knows when each job ends
//	tenant_test.go  a second tenant who scales clusters in the meantime
package fleet
