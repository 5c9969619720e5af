// SPDX-License-Identifier: Apache-2.0

// Package controllers connects Cluster API to the portal. One folder per kind:
//
//	portalcluster           account, VPC and network; the identity Secret is held while it is needed
//	portalclusteridentity   whether an account that several namespaces share can be used; held while it is needed
//	portalcontrolplane      everything that changes a portal cluster, one operation at a time: create, upgrade, scale,
//	                        delete; and which Machine holds which worker node
//	portalmachine           how a claim on a worker node stands; never calls the portal
//	portalmachinepool       how the pool stands, whose nodes are those that no Machine claims; never calls the portal
//	portalbootstrapconfig   nothing to do: the portal bootstraps its nodes, but a ClusterClass needs the kind
//
// and the packages that they use:
//
//	claims     Machines are claims on worker nodes: a pure function decides who holds what, and how many workers to ask for
//	operation  runs create, scale, upgrade and delete at the portal, one at a time, and survives a crash at any moment
//	ownerref   owner references, which are stale or missing after a restore
//	drain      evicts the Pods of a node that no Machine claims, a few at a time
//	outcome    how a step of a reconcile ended: done, wait, stalled, retry, blocked or failed; and the backoff of refused requests
//	kubeconfig which kubeconfigs are used, and what of them
//	identity   an identity Secret becomes a client of the portal; who may use a shared one, and how much of it
//	secretcache one read of a Secret serves many passes
//	gateway    the way to the API servers of workload clusters, whose answers are bounded
//	coreversion reports whether takeovers were tried with this version of core
//	fair       keeps one namespace from holding all workers of a controller
//	wakeup     an object whose turn at the account's rate limit has come is reconciled at once
//	metrics    what Prometheus reads
//
// The arrow is one way: main → controllers → cloud → HTTPS. From here, read portalcontrolplane/doc.go next.
package controllers
