// SPDX-License-Identifier: Apache-2.0

// Package samples holds objects as each release of the provider has written them, and checks that this one can read them: every
// kind, annotation and record. testdata has a directory for each release, with a file for each phase in which a cluster was.
//
//   - TestRead reads every object, annotation and record with today's types. A field that today's code does not know is an error, unless
//     the table gone names it with a reason.
//   - TestAccepted creates every object on a real API server with today's CRDs. Nothing of it may be pruned.
//   - TestRun lets today's manager run a cluster that is restored from the samples. It replaces nothing, and asks the portal for no change.
//
// The samples of a release are written once, when the next one begins, by the release itself:
//
//	make test-upgrade PREVIOUS=v0.1.0 UPGRADE_FLAGS="-record $PWD/test/samples/testdata/v0.1.0"
//
// They hold no credentials: Secrets are without data. How clusters in every other phase are taken over is tested in package upgrade.
package samples
