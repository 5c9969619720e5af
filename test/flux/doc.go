// SPDX-License-Identifier: Apache-2.0

// Package flux installs the previous release of the provider by Flux, and upgrades it to this one, as docs/install.md describes:
//
//	make test-flux
//
// kustomize-controller is the released one, built from its module (hack/flux). It reads config/examples/flux-provider.yaml as it is. In place of
// source-controller, the test serves the folder of the repository, and writes into the status of the GitRepository where. The management cluster of
// the sandbox has no Nodes, so a Kubelet of package sandbox runs the managers as their Deployments say.
//
// While the provider is replaced, a Cluster with two workers lives, and the portal's request log decides whether the test passes.
package flux
