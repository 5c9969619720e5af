// SPDX-License-Identifier: Apache-2.0

// Package ownership checks that no event in Kubernetes loses a portal cluster or creates a second one: restores, clones, moves, deletions,
// uninstalls. It is a table with the event, the requests that the provider sends to the portal because of it, and what the user sees.
//
// The rows run on real servers: the management cluster's API server and garbage collector, Cluster API's core manager, the provider's
// manager, and the emulated portal with workload clusters. Most rows run at the same time, each in its own namespace and under its own
// portal account. Rows that affect the whole management cluster run at the end, one after the other.
//
// Rows that need no real garbage collector, admission policy, namespace controller or clusterctl are in test/world.
//
// A row passes if its line of docs/development/ownership.md becomes true, and is true seconds later: exactly these requests to change
// something, the conditions, and the portal cluster that there was, or none. A new row needs a line with its event first.
//
//	go test ./test/ownership                      # all rows
//	go test ./test/ownership -run '//restore'     # some of them, and the rows before them
//	go test ./test/ownership -write               # write the lines of docs/development/ownership.md
package ownership
