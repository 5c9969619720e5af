// SPDX-License-Identifier: Apache-2.0

// Package gateway stands between the manager and the API servers of workload clusters. Whoever owns a workload cluster owns its API
// server, so its answers may be endless, compressed, or made of millions of empty objects. client-go reads an answer as a whole before it
// looks at it.
//
// The ClusterCache makes its clients from the kubeconfig Secret alone and offers no other hook. So the gateway is the ClusterCache's
// reader of Secrets: the kubeconfig that it returns leads to a listener on loopback, with a token that only this process knows. The
// listener sends each request on to the API server that the stored kubeconfig names, with the credentials in it, and passes the answer
// back within bounds:
//
//	meter.go    how large an answer or an event of a watch may be, and how many objects it may hold
//	tenant.go   how much one namespace may have under way at the same time, and how many events it may send
//	gateway.go  which requests and answers are passed on: JSON, not compressed, no redirects, no upgrades; lists, but no streamed lists
package gateway
