// SPDX-License-Identifier: Apache-2.0

// Package randomized runs random acts against real Clusters. It uses Cluster API's own manager, our manager as a process that
// the test kills and stops, real API servers on both sides, and the emulated portal with its faults. It is the second layer of
// the model test of package controllers/claims: fewer histories of the same kind, without a model.
//
// A life is one Cluster from its creation to its deletion, in a namespace and an account of its own. It consists of sequences.
// A sequence begins with a settled Cluster and runs a few acts with random gaps between them. Then the Cluster must settle
// again: every Machine has a worker node of its own and every worker node a Machine, everything is Ready, no node is cordoned or
// marked, and the portal's size is the sum of the replicas.
//
// The judges check some rules at every moment. They watch both API servers and read the portal's request log (hold_test.go), so
// they miss nothing between two looks:
//
//   - The provider asks the portal only for the sum of the replicas or, when it scales down, for a size between the current one
//     and the sum.
//   - Only the portal deletes the Node object of a machine that it runs.
//   - A drain begins only if there are more workers than the sum. Only such a drain cordons a node. Core drains nodes that a
//     Machine holds, the provider drains the others.
//   - Once the provider knows in which order the portal removes nodes, no scale-down removes a node with Pods that a drain would
//     have evicted (harmjudge_test.go), unless the node's own MachineDeployment ends drains early.
//   - A node that is marked as drained stays cordoned until the portal removes it or the provider removes the mark.
//   - In a quiet sequence, in which no replicas change, the provider never asks the portal to scale.
//
// Everything random comes from the life's seed. A failure prints the command that repeats the life. The acts are the same
// then, but the timing of the real servers is not.
//
//	go test ./test/randomized                                          a few fixed lives, about two minutes
//	go test ./test/randomized -timeout 0 -sequences 40                 40 sequences in each environment
//	go test ./test/randomized -timeout 0 -for 30m -seed 1000           30 minutes for all environments together
//	go test ./test/randomized -run 'TestHistories/random-surge' -seed 1003 -sequences 2
package randomized
