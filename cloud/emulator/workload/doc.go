// SPDX-License-Identifier: Apache-2.0

// Package workload runs the Kubernetes clusters that the emulated portal sells, with real Kubernetes servers.
//
// A cluster is a kube-apiserver, a kube-controller-manager and a kube-scheduler (package kubeserver) over an etcd that all
// clusters share, and kwok in place of the kubelets: it keeps the Nodes Ready and runs and deletes their Pods, without
// containers. So evictions meet PodDisruptionBudgets, Deployments replace Pods, and kubectl works, but nothing is
// executed.
//
// Clusters implements emulator.Workloads: it runs the clusters and nodes that the emulator has. Tests depend on three
// rules of real machines:
//
//   - A machine that is removed takes its Pods with it, even if a PodDisruptionBudget protects them. If the Node object stays
//     behind (emulator.Node.Gone), only its heartbeats end.
//   - A kubelet registers its Node only when it starts. If a user deletes the Node object of a running machine, it comes back when
//     the kubelet starts again, which here is when its version changes.
//   - What users do to a Node (labels, taints, cordons) stays until its machine goes.
//
// The servers of a cluster are its plane (plane.go), in a directory and under an etcd prefix of its own. The start of an API server costs more
// than everything else in the life of a cluster of a test. With Options.Reuse, the API server of a deleted cluster stays as a spare one, without
// users and without the servers around it. The next cluster of the same version takes it:
//
//   - It has another port, other authorities and other credentials, so nothing that the deleted cluster has handed out works.
//   - It has no object of the deleted cluster. Only what an API server makes at its start stays in etcd. If users have changed these objects, for
//     example the labels of the namespace default, the changes stay, too, as do the APIServices that they have added.
//   - Its kube-controller-manager, scheduler and kwok are new processes, and register its Nodes as in a new cluster.
//
// The version of a cluster is that of its kube-apiserver binary, one of the file versions.txt. All of them are linked
// from the same sources. A Kubernetes server derives its feature gates from its version, so an older version also behaves like an
// older one.
package workload
