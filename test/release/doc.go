// SPDX-License-Identifier: Apache-2.0

// Package release tests the files that users download, in the way that users use them. make release-manifests writes a repository. The real
// clusterctl installs it in an API server and renders components and flavors from it. The API server, with Cluster API's webhooks, checks whether
// it would accept them. Programs, images and licences take minutes to build, so only at night make release writes the repository with all files,
// and make bundle the sandbox, which runs where nothing else is.
//
// The tests do not read files that an earlier make has left. They write the repository again, into a temporary directory.
package release
