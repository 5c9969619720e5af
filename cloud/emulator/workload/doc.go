// SPDX-License-Identifier: Apache-2.0

// Package workload runs the Kubernetes clusters that the emulated portal sells, with real Kubernetes servers.
//
// A cluster is a kube-apiserver, a kube-controller-manager and a kube-scheduler (package kubeserver) over an etcd that all
// clusters share, and kwok in place of the kubelets: it keeps the Nodes Ready and runs and deletes their Pods, without
// containers. So evictions meet PodDisruptionBudgets, Deployments replace Pods, and kubectl works, but nothing is
// executed.
//
// Clusters implements emulator.Workloads: it makes true what the emulator says exists. Three rules of real machines
// are kept, because tests depend on them:
//
//   - A machine that goes takes its Pods with it, however they are protected; unless it is a machine whose Node object
//     stays behind (emulator.Node.Gone): then heartbeats end, and Kubernetes finds out for itself.
//   - A kubelet registers its Node when it starts, and only then. Whoever deletes the Node object of a running machine
//     has lost it until its kubelet starts again, which here is when its version changes.
//   - What users do to a Node (labels, taints, cordons) stays until its machine goes.
//
// The version of a cluster is that of its kube-apiserver binary, one of the file versions.txt. All of them are linked
// from the same sources; a Kubernetes server derives its feature gates from its version, so an older one also behaves
// like one.
package workload
