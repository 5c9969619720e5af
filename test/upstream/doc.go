// SPDX-License-Identifier: Apache-2.0

// Package upstream runs Cluster API's own end-to-end specs against this provider: the specs and the framework of
// sigs.k8s.io/cluster-api/test. It is a module of its own, so that users of the provider do not depend on them.
//
//	make test-upstream                                  all specs, in a sandbox that it starts
//	make test-upstream UPSTREAM='quick-start'           specs whose text matches
//	make test-upstream KUBECONFIG_UPSTREAM=kind.yaml    on an existing management cluster
//
// catalogue_test.go lists every spec of upstream's version, and says whether it runs here, or why it does not. The other files give each running
// spec the input that upstream's *_test.go give it for their own providers.
//
// Upstream wrote its specs for KubeadmControlPlanes, whose machines are Machines. If a spec depends on such machines, the command in patch/
// changes it. The command copies upstream's module from the module cache to bin/upstream, edits the copy, and writes a go.mod that uses the
// copy. So this repository has no code of upstream. patches/patches.go has the edits, each with its reason.
//
// An existing management cluster needs Cluster API, this provider, and an identity Secret default/portal-identity. The variables of
// templates/cluster-template.yaml and KUBERNETES_VERSION come from the environment. The autoscaler's spec needs the real autoscaler binary
// (docs/development/testing.md).
package upstream
