// SPDX-License-Identifier: Apache-2.0

// Package upstream runs Cluster API's own end-to-end specs against this provider: those of sigs.k8s.io/cluster-api/test, with
// their framework. It is a module of its own, because nobody who uses the provider needs them.
//
//	make test-upstream                                  all specs, in a sandbox that it starts
//	make test-upstream UPSTREAM='quick-start'           specs whose text matches
//	make test-upstream KUBECONFIG_UPSTREAM=kind.yaml    on a management cluster that exists
//
// catalogue_test.go lists every spec of upstream's version, and says whether it runs here, and if not, why. The other files give
// each spec that runs the input that upstream's *_test.go give it for their own providers.
//
// Upstream wrote its specs for KubeadmControlPlanes, whose machines are Machines. Where a spec looks at such machines, the
// command in patch/ changes it: it copies upstream's module out of the module cache into bin/upstream, edits the copy, and writes
// a go.mod that uses the copy. So this repository holds no code of upstream. patches/patches.go has the edits, each with its reason.
//
// A management cluster that exists needs Cluster API, this provider, and an identity Secret default/portal-identity; the
// variables of templates/cluster-template.yaml and KUBERNETES_VERSION come from the environment. The spec of the autoscaler needs
// the binary of the real one (docs/development/testing.md).
package upstream
