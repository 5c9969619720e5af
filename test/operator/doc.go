// SPDX-License-Identifier: Apache-2.0

// Package operator installs the previous release of the provider by the Cluster API Operator, and upgrades it to this one, as docs/install.md
// describes:
//
//	make test-operator
//
// The operator is the released one, built from its module (hack/operator). It reads config/examples/operator.yaml, in which the test changes only
// the version. The management cluster of the sandbox has no Nodes, so a Kubelet of package sandbox runs the managers as their Deployments say. The
// sandbox runs core from the beginning: the CoreProvider installs only its Deployment.
//
// While the provider is replaced, a Cluster with two workers lives, and the portal's request log decides whether the test passes.
package operator
