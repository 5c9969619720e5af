// SPDX-License-Identifier: Apache-2.0

// Package controllers connects Cluster API to the portal. Each kind has one folder:
//
//	portalcluster           account, VPC and network. Holds the identity Secret against deletion while it is needed
//	portalclusteridentity   whether an account that several namespaces share can be used. Holds its Secret likewise
//	portalcontrolplane      makes every change to a portal cluster, one operation at a time: create, upgrade, scale, delete. It
//	                        also binds Machines to worker nodes
//	portalmachine           status of a claim on a worker node. Never calls the portal
//	portalmachinepool       status of the pool of worker nodes that no Machine claims. Never calls the portal
//	portalbootstrapconfig   an empty Secret: the portal bootstraps its nodes, but a ClusterClass needs the kind
//
// Below portalcontrolplane are the rooms that it uses. Each of them answers one question:
//
//	portalcontrolplane/pass                what does every step of a pass read? Does the portal have the cluster?
//	portalcontrolplane/lifecycle           is there a portal cluster, and of which version? Creates once, upgrades, deletes
//	portalcontrolplane/ownership           whose is a portal cluster? Owners, copies, restored objects, unintended deletions
//	portalcontrolplane/access              how is the workload cluster reached? The kubeconfig Secret, the endpoint, the connection
//	portalcontrolplane/access/kubeconfig   which kubeconfigs are used, and which parts of them?
//	portalcontrolplane/access/workload     what does the API server of a workload cluster answer? Connects, and limits the answers
//	portalcontrolplane/workers             how many workers are wanted, and which exist? Binds Machines to Nodes, drains, scales
//	portalcontrolplane/workers/claims      which Machine holds which worker node, and how many workers are asked for? A pure function
//	portalcontrolplane/workers/drain       what keeps a node from being drained? Evicts the Pods of a node that core does not drain, a few at
//	                                       a time, and finds Pods that must not be evicted, and what may stop a drain
//
// The kinds share:
//
//	shared/operation   runs create, scale, upgrade and delete at the portal, one at a time, and survives a crash at any moment
//	shared/outcome     how a step of a reconcile ended (done, wait, stalled, retry, blocked or failed), and the backoff of refused
//	                   requests. It also keeps what is remembered of each object, and answers of the portal that count for several
//	shared/removal     what is known of the order in which a portal removes workers, and the nodes that existed before an operation
//	shared/persist     writes objects: a change with an optimistic lock, and a result until it is stored
//	shared/identity    makes a portal client from an identity Secret, and decides who may use a shared one
//	shared/secretcache keeps the Secrets in use, so that one read serves many passes
//	shared/ownerref    corrects owner references that are stale or missing after a restore
//	shared/fair        keeps one namespace from holding all workers of a controller
//	shared/wakeup      reconciles an object as soon as the account's rate limit has a token for it
//	shared/metrics     the metrics for Prometheus
//
// Imports go one way: main → controllers → cloud → HTTPS. Read portalcontrolplane/doc.go next.
// docs/development/README.md ("Read the code") has the path to the line that sends a request.
package controllers
