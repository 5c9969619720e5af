// SPDX-License-Identifier: Apache-2.0

// Package hostile runs the real manager against workload API servers that their owner has turned against it: servers that accept
// connections and never answer, that send a byte a second, that answer until the manager has connected, that have 24,000 Nodes or a list
// of Nodes without end. The clusters of another namespace must be ready in time, and the manager's memory must stay small.
package hostile
