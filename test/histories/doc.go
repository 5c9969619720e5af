// SPDX-License-Identifier: Apache-2.0

// Package histories lets random things happen to Clusters that run for real: Cluster API's own manager, our manager as a
// process that is killed and stopped, real API servers on both sides, and the emulated portal with its faults. It is the
// second layer of the model test of package controllers/claims: the same kind of histories, fewer of them, without a model.
//
// A life is one Cluster from its creation to its deletion, in a namespace and an account of its own. It consists of
// sequences; in each, a few acts with random gaps between them befall a Cluster that was settled, and then it must settle
// again: Machines and worker nodes one to one, everything Ready, nothing cordoned or marked, the portal's size the sum of the
// replicas. What must hold at every moment is judged from watches of both API servers and from the portal's journal
// (hold_test.go), so nothing that happens between two looks is missed; and once more from the audit logs of both API servers
// (auditjudge_test.go), which know who did it:
//
//   - the portal is asked only for the sum of the replicas, or on the way down for a size between the present one and the sum;
//   - the Node object of a machine that the portal runs is never deleted, but by the portal itself; the provider deletes only what
//     the portal left of a node that the provider had drained;
//   - no drain begins unless there are more workers than the sum; no node is cordoned, no Pod evicted but by such a drain, which
//     is core's, or the provider's where no Machine holds the node;
//   - no scale-down removes a node on which Pods run that a drain would have evicted, once the provider knows in which order the
//     portal removes nodes (harmjudge_test.go);
//   - a node that is marked as drained stays cordoned until the portal removes it or the provider takes the mark away, and only the
//     provider writes such marks;
//   - during an upgrade no Ready node is left idle while a Machine waits for one, and no Machine is remediated;
//   - a node costs one remediation until it is healthy again;
//   - in a sequence without a change of replicas (a quiet one) the portal is asked to scale not once;
//   - nobody but our manager writes hooks, claims and nodeRefs (core sets those that are empty), and one manager at a time;
//   - our manager does not write an object over and over.
//
// Everything random comes from the life's seed. A failure prints the command that lives that life again: what was drawn
// is the same, though not the moment at which real servers get to it.
//
//	go test -race ./test/histories                                    a few fixed lives, about two minutes
//	go test ./test/histories -timeout 0 -sequences 40                 that many sequences in each world
//	go test ./test/histories -timeout 0 -for 30m -seed 1000           as long as one says, in all worlds together
//	go test ./test/histories -run 'TestHistories/random-surge' -seed 1003 -sequences 2
package histories
