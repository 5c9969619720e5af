// SPDX-License-Identifier: Apache-2.0

// Package ownership checks that no event in Kubernetes loses a portal cluster or makes a second one: restores, clones, moves, deletions,
// uninstalls. It is one table: the event, what the portal is asked because of it, and what the user sees.
//
// The rows run on real servers: the management cluster's API server and garbage collector, Cluster API's core manager, the provider's
// manager, and the emulated portal with workload clusters. Most rows run at the same time, each in its own namespace and under its own
// portal account. Rows that stop a manager or delete CRDs run alone, at the end.
//
// A row passes if the portal was asked exactly what the row says, if as many portal clusters exist afterwards as it says, and if the
// conditions have the status that it says. Requests that only read do not count.
//
//	go test ./test/ownership                      # all rows
//	go test ./test/ownership -run '/restore'      # some of them
//	go test ./test/ownership -write               # and write the table into docs/ownership.md, if all rows pass
//
// TestPage compares docs/ownership.md with the rows.
package ownership
