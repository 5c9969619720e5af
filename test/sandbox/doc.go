// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs everything on this machine, without containers: a management cluster (etcd, kube-apiserver,
// kube-controller-manager), the real Cluster API core manager with its webhooks, the portal provider's manager, and the
// emulated portal with real workload clusters behind it.
//
// Nothing is faked on the way. Components are installed from the manifests that a release carries; the webhooks are
// called by the API server over TLS; our manager runs as the ServiceAccount it would run as in a cluster, so it may do
// what its RBAC role says and nothing more; the portal is reached over HTTPS with a CA of its own. Only three things
// differ from a cluster: the managers are processes instead of Pods, the webhooks are found by URL instead of a Service,
// and their certificates come from the sandbox instead of cert-manager.
//
// Everything listens on loopback, on free ports. Close ends it all; so does the end of this process, however it ends.
//
// Commands use it through cmd/portal-sandbox, tests directly. Parts that a test does not need can be left out, and the
// manager can be stopped, killed and started again while the rest goes on.
package sandbox
