// SPDX-License-Identifier: Apache-2.0

// Package kubeserver runs Kubernetes servers as child processes: the real etcd, kube-apiserver, kube-controller-manager and kube-scheduler,
// and managers beside them. The emulator uses it to run workload clusters, the sandbox uses it to run its management cluster, and tests use
// it for both.
//
// A Plane is a control plane. It keeps its keys, certificates, port and etcd prefix for its whole life, so that its API server can be
// stopped and started again with the binary of another version. The emulator upgrades clusters this way, and existing kubeconfigs stay
// valid. Many Planes share one Etcd. All servers listen on loopback unless Options says otherwise.
//
// The start of an API server costs more than the short life of a cluster in a test. So a Reusable plane can serve one cluster after another:
// Detach ends everything but the API server, and Reuse replaces the port and all certificates without a restart. Users of the first cluster
// find a closed port, as if the API server had ended, because they connect through a door that this process shuts.
//
// # Processes
//
// Start returns when the server passes its readiness probe (Spec.Ready, usually Probe). If the server does not get ready, Start returns an
// error with the end of its log. Stop sends SIGTERM, and kills a server that takes too long. Three rules prevent stray processes:
//
//   - Stop waits until the process has ended.
//   - Children have a process group of their own. A Ctrl-C in the terminal reaches this process only, which then stops its children in the
//     right order.
//   - On Linux, the kernel kills a child when this process ends without having stopped it: after a crash, after kill -9, or when a
//     test's time is over.
//
// # Why this is not envtest
//
// controller-runtime's envtest starts one etcd and one API server for one test binary. It lacks four things:
//
//   - dozens of control planes over one etcd, because an etcd for each of them would take most of the memory,
//   - an API server of another version on the same address with the same data, for upgrades,
//   - rotation of certificates, port and authority while clients run,
//   - controller manager and scheduler, so that Nodes, Pods and evictions behave as in a cluster.
package kubeserver
