// SPDX-License-Identifier: Apache-2.0

// Command prebuilt fetches released Kubernetes and etcd binaries into bin/. make kube runs it if PREBUILT=1 is set, and
// compiles the binaries otherwise:
//
//	make kube PREBUILT=1
//
// It fetches the versions that make kube compiles: those of cloud/emulator/workload/versions.txt, and the etcd of hack/kube/go.mod. Files
// come from dl.k8s.io and from etcd's releases on github.com, or from mirrors with the same paths. All downloads use TLS.
//
//	make kube PREBUILT=1 PREBUILT_FLAGS='-kubernetes https://mirror.example/kubernetes -checksums my-checksums.txt'
//
// The command uses no file before it has checked the file's SHA-256. A checksum in hack/kube/checksums.txt, or in the file that -checksums
// names, is a pin, and only the pin counts. A file without a pin is checked against the checksum that the release host publishes beside it.
// This detects a broken download, but trusts the host. In that case the command prints the lines that would pin the files.
//
// The command moves a file to its name in bin/ only after the file is complete and checked, so an interrupted download leaves nothing.
package main
