// SPDX-License-Identifier: Apache-2.0

// Package workload connects to the API servers of workload clusters. A Connection belongs to one kubeconfig. Every 10 s it asks the
// API server for its version. The answer is the health of the connection, the reason if it fails, and the version in one. While the
// API server answers, a watch keeps its Nodes.
//
// The owner of a workload cluster controls its API server, so its answers may be endless, compressed, or made of millions of empty
// objects. client-go reads a whole answer before it looks at it. So of each answer only so many bytes and objects are read, for so long:
//
//	connections.go  one Connection for each PortalControlPlane, and what wakes its reconciler
//	connection.go   the probe of the API server, and the watch of its Nodes while it answers
//	client.go       the clients, which know only the kinds that the provider reads
//	nodes.go        the Nodes that the watch has seen, without the parts that are not read
//	transport.go    which requests and answers pass: JSON, not compressed, no redirects, no upgrades
//	bounds.go       how much of an answer is read
package workload
