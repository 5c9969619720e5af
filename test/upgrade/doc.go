// SPDX-License-Identifier: Apache-2.0

// Package upgrade replaces the previous release of the provider by this one while clusters are in every phase: ready, being created,
// scaled, upgraded, rolled out, drained, deleted, and held because the provider cannot know whether the portal created them.
//
//	make test-upgrade
//
// builds the previous release from the commit that the Makefile names (PREVIOUS) and runs the upgrade in the sandbox, in the steps of
// clusterctl upgrade apply: the old manager ends, its roles and policies are deleted, the new CRDs, roles and policies are installed, and
// the new manager starts. The portal's jobs do not progress during the upgrade, so every phase lasts. Roll-outs are the exception: they
// need no job, and may have ended when the new manager starts.
//
// The portal's request log decides whether the test passes. While the jobs do not progress, the new manager sends no change. Afterwards
// every cluster completes its operation, and the log has each request for a change once. No Machine, template or portal machine is
// replaced.
//
// With the flag -record the test writes the objects of the previous release as samples for package samples.
package upgrade
