// SPDX-License-Identifier: Apache-2.0

// Package world runs the whole provider, Cluster API's core and the emulated portal in one process and in virtual time, from a seed. A test
// lives a life in it: it creates a cluster, changes its mind, and looks at what users see and at what the portal was asked.
//
// # What is real
//
// The provider's controllers, by [controllers.SetupWithManager], with the rights of the manager's ServiceAccount; core's controllers and webhooks,
// by their own SetupWithManager (those of ClusterClasses in lives that ask for them); controller-runtime's manager, controllers and clients; the
// API server's handler for custom resources, with the real CRDs, so schemas, defaults, CEL rules, server-side apply, generations, finalizers and
// preconditions; the portal's client with its limiter; and package emulator.
//
// # What stands in
//
//   - store for etcd, and informers for controller-runtime's cache, so that the scheduler decides when a manager sees a change.
//   - queue for the work queues, so that it decides which object is next.
//   - connections and clusterCache for the network to workload clusters.
//   - workload and app for kubelets, kube-scheduler, the controllers of ReplicaSets and of budgets, and evictions.
//   - collectGarbage for the garbage collector. No deletion in the foreground.
//   - gitops for Flux and Argo CD, which apply manifests all the time.
//   - Kubernetes' own kinds have no schema. Policies, conversion, leader election, deletion of namespaces and TLS are not there: test suites on
//     real servers hold these.
//
// # How it stays the same
//
// A bubble of [testing/synctest] has one clock. After each step everything runs until it waits. Then the scheduler draws what is next among
// all that is due; only if nothing is due does the time go on. Random numbers that are not the scheduler's come from sources of their own,
// one for each purpose, and those of libraries are seeded, so a process lives one life at a time. The log of all steps and writes has a
// digest: the same seed has the same digest.
//
// # Core's facts
//
// TestFacts checks what the provider relies on in core's behavior, with core alone. The facts are those of package capibehavior, which checks them
// on real servers, too. So they also judge this package: its API server, its caches and its clock.
//
// # Drawn lives
//
// TestLives draws whole lives: a portal that follows the specification, acts of users, and what goes wrong. A judge looks after each step, and
// a person does what conditions ask for. To live one again: go -C test/world test . -vet=off -run TestLives -v -only 4711.
//
// # What can interrupt the provider
//
// [Faults] kill it before or after any of its writes, hold it up before a write while others act, and show it changes late. It starts again
// with an empty memory, as a new Pod does.
package world
