// SPDX-License-Identifier: Apache-2.0

// Package gitops tests the provider and core under GitOps. The tests apply the manifests of a Cluster every two seconds, as Flux does
// (server-side apply with force) and as Argo CD does (client-side apply, which removes fields that have left the manifest). In the meantime
// they create, scale, upgrade, roll out, autoscale and delete the Cluster. A test runs as one of the two tools, and at night as both
// (eachTool).
//
// Each test has a namespace and a portal account of its own, and records every version of every object with watches. A test fails if an apply
// is refused or conflicts, if a field changes back and forth, if a field is lost, if a controller writes an object while nothing happens, or
// if a field has another owner than docs/gitops.md says. The tests also judge the objects as that page describes (package health): they
// must not be current before the last commit has arrived. The page describes the only exception, a rollout that core reports late.
package gitops
