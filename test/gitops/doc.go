// SPDX-License-Identifier: Apache-2.0

// Package gitops tests a Cluster with the ClusterClass of the release under GitOps, on real servers. TestLife applies the manifests again and
// again, as Flux does (server-side apply with force), while it creates, scales, upgrades and deletes the Cluster. It fails if an apply is
// refused or conflicts. It judges the objects as docs/gitops.md describes (package health): they must not be current before the last commit has
// arrived.
//
// The tales TestGitOps* of test/world do this in virtual time as Flux and as Argo CD do, and also check which field has which owner, that no
// field changes back and forth, and that nothing is written while nothing happens. The tales TestTopology* have more of the ClusterClass. The real
// servers add policies, kubectl wait, clusterctl, and a ClusterClass that cannot be deleted while it is in use.
package gitops
