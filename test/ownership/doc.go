// SPDX-License-Identifier: Apache-2.0

// Package ownership checks that no event in Kubernetes loses a portal cluster or creates a second one: restores, clones, moves, deletions,
// uninstalls. It is a table with the event, the requests that the provider sends to the portal because of it, and what the user sees.
//
// The rows run on real servers: the management cluster's API server and garbage collector, Cluster API's core manager, the provider's
// manager, and the emulated portal with workload clusters. Most rows run at the same time, each in its own namespace and under its own
// portal account. A row that leaves the Cluster as it was runs before another row, on the Cluster of that row (row.before). Rows that delete
// CRDs run at the end, one after the other.
//
// Rows that need no real garbage collector, admission policy, namespace controller or clusterctl are in test/world.
//
// A row passes if the provider sent exactly the requests of the row, if the number of portal clusters afterwards is that of the row, and if
// the conditions have the status in the row. Requests that only read do not count.
//
//	go test ./test/ownership                      # all rows
//	go test ./test/ownership -run '//restore'     # some of them, and the rows before them
//	go test ./test/ownership -write               # all rows, and write docs/development/ownership.md if all pass
//
// TestPage compares docs/development/ownership.md with the rows.
package ownership
