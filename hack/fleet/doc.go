// SPDX-License-Identifier: Apache-2.0

// Command fleet measures the manager with many clusters on one account of the emulated portal, in real time: make bench-fleet N=300.
// The manager, the management API server and its etcd are real. So is core up to -core-up-to clusters.
//
//	main.go      flags, and the order of the measurements
//	world.go     what runs, and the objects of a cluster
//	nodes.go     the API servers of the portal's clusters, which serve Nodes only
//	server.go    what each of them answers
//	standin.go   the stand-in for core, for larger fleets
//	observer.go  when each cluster reached each milestone
//	storm.go     creates the clusters while a second tenant scales its own
//	portal.go    what the portal's request log says
//	restart.go   kills the manager while jobs run
//	usage.go     memory, goroutines, CPU and requests of the manager
//	report.go    the table
package main
