// SPDX-License-Identifier: Apache-2.0

// Package gitops tests the provider together with core under GitOps: the manifests of a Cluster are applied again every two seconds, as Flux
// does (server-side apply with force) and as Argo CD does (client-side apply, which removes what left the manifest), while the Cluster is
// created, scaled, upgraded, rolled out, autoscaled and deleted.
//
// Each test has a namespace and a portal account of its own. Every version of every object is recorded through watches. A test fails if an
// apply is refused or conflicts, if a field changes back and forth, if a field is lost, if anything is written while nothing happens, or if
// a field is not owned as docs/gitops.md says. The health checks of that page are evaluated all along: they may not say that a change has
// arrived before it has (package health). The page names the one exception, a roll-out that core reports late.
package gitops
