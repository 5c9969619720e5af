// SPDX-License-Identifier: Apache-2.0

// Package upgrade replaces the previous release of the provider by this one while clusters are in every phase: ready, being created,
// scaled, upgraded, rolled out, drained, deleted, and held because nobody knows whether the portal created them.
//
//	make test-upgrade
//
// builds the previous release from the commit that the Makefile names (PREVIOUS) and lives the upgrade on the sandbox, as
// clusterctl upgrade apply performs it: the old manager ends, its roles and policies are deleted, the new CRDs, roles and policies
// are installed, the new manager starts. The portal's jobs stand still in the meantime, so every phase lasts, but for roll-outs: these need
// no job, and may have ended when the new manager starts.
//
// The portal's request log is the judge. While the jobs stand still, the new manager asks for no change. Afterwards every cluster
// ends what it was doing, and the log holds each request for a change once. No Machine, template or machine of the portal is replaced.
//
// With the flag -record the test writes what the previous release has stored, as samples for package samples.
package upgrade
