// SPDX-License-Identifier: Apache-2.0

// Package hostile runs the real manager against hostile workload API servers. Some accept connections and never answer, some send a byte a
// second, some stop answering after the manager has connected. One has 24,000 Nodes, one has a list of Nodes without end, and one has pages
// of Nodes without end. The tests check that the clusters of another namespace are ready in time, and that the manager's memory stays small.
package hostile
