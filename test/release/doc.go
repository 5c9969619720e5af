// SPDX-License-Identifier: Apache-2.0

// Package release holds what users download to what they do with it: make release-manifests writes a repository, the
// real clusterctl renders components and flavors from it, and a real API server, with Cluster API's CRDs and webhooks
// and ours, says whether it would take them.
//
// Nothing is asserted of files that make has left somewhere: the repository is written again, into a directory of the
// test's.
package release
