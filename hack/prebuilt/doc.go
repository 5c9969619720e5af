// SPDX-License-Identifier: Apache-2.0

// Command prebuilt fetches released Kubernetes and etcd binaries into bin/, which make kube would compile otherwise:
//
//	make kube PREBUILT=1
//
// The versions are those that make kube compiles: those of cloud/emulator/workload/versions.txt, and etcd's of hack/kube/go.mod. Files
// come from dl.k8s.io and from etcd's releases on github.com, or from mirrors that have the same paths, over TLS only.
//
//	make kube PREBUILT=1 PREBUILT_FLAGS='-kubernetes https://mirror.example/kubernetes -checksums my-checksums.txt'
//
// No file is used before its SHA-256 is checked. A checksum in hack/kube/checksums.txt, or in the file that -checksums names, is a pin:
// it alone counts. A file without a pin is checked against the checksum that the release host publishes beside it. This detects a
// broken download, but trusts the host. In that case the command prints the lines that would pin the files.
//
// A file gets its name in bin/ when it is complete and checked. An interrupted download leaves nothing.
package main
