// SPDX-License-Identifier: Apache-2.0

// Package samples has objects as each release of the provider has written them, and checks that this release can read them: every kind,
// annotation and record. testdata has a directory for each release, with a file for each phase of a cluster.
//
//   - TestRead reads every object, annotation and record with today's types. A field that today's code does not know is an error, unless
//     the table gone has a reason for it.
//   - TestSamplesAreKept of package contract creates every object at a real API server with today's CRDs.
//
// The samples of a release are written once, when the next one begins. The release itself writes them:
//
//	make test-upgrade PREVIOUS=v0.1.0 UPGRADE_FLAGS="-record $PWD/test/samples/testdata/v0.1.0"
//
// They hold no credentials: Secrets have no data. Package upgrade lets today's manager take over the clusters that the release itself runs, in
// every phase: it replaces nothing, and asks the portal for no change.
package samples
