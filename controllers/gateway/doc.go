// SPDX-License-Identifier: Apache-2.0

// Package gateway is a proxy between the manager and the API servers of workload clusters. The owner of a workload cluster
// controls its API server, so its answers may be endless, compressed, or made of millions of empty objects. client-go reads a
// whole answer before it looks at it.
//
// The ClusterCache makes its clients from the kubeconfig Secret alone and offers no other hook. So the gateway is the
// ClusterCache's reader of Secrets. The kubeconfig that it returns leads to a listener on loopback, with a token that only this
// process knows. The listener forwards each request to the API server in the stored kubeconfig, with the credentials from it, and
// limits the answer:
//
//	meter.go    how large an answer or an event of a watch may be, and how many objects it may hold
//	tenant.go   how many bytes one namespace may have under way at the same time, and how many events it may send
//	gateway.go  which requests and answers are forwarded: JSON, not compressed, no redirects, no upgrades, no streamed lists, and
//	            no lists of Nodes in pages, which could be endless
package gateway
