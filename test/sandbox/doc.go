// SPDX-License-Identifier: Apache-2.0

// Package sandbox runs a complete setup on this machine, without containers: a management cluster (etcd, kube-apiserver,
// kube-controller-manager), the real Cluster API core manager with its webhooks, the portal provider's manager, and the emulated portal
// with real workload clusters behind it.
//
// The components are real and are connected as in a cluster. The sandbox installs them from the manifests of a release. The API server
// calls the webhooks over TLS. Our manager runs as its ServiceAccount, so it has only the rights of its RBAC role. It calls the portal over
// HTTPS with a CA of its own. Only three things differ from a cluster: the managers are processes instead of Pods, the webhooks have a URL
// instead of a Service, and the sandbox issues their certificates instead of cert-manager.
//
// All servers listen on free loopback ports. They end when Close is called or when this process ends, even if it crashes.
//
// The management cluster has no Nodes, so a Deployment runs nothing, unless a test starts a Kubelet, which runs its manager as a process.
//
// Commands use the package through cmd/portal-sandbox, and tests use it directly. Tests can leave out parts that they do not need, and can
// stop, kill and restart the manager while the other parts keep running.
package sandbox
