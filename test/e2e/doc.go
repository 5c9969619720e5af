// SPDX-License-Identifier: Apache-2.0

// Package e2e takes the provider as users get it, on a management cluster of its own: kind, Cluster API's core, our
// release manifests and our image, installed by clusterctl from a local repository, with the emulated portal as a Pod.
//
//	make test-e2e
//	go test -tags e2e ./test/e2e -v -timeout 60m -run 'TestSpecs/together/^scale$'
//
// # What runs where
//
// A kind cluster is made with kind's Go packages, and images are loaded into its nodes from docker. The emulator runs on
// one of them with the node's network, so the portal, and every API server of the clusters it sells, has the address
// of that node: a second management cluster, which the spec of clusterctl move makes, reaches them there as the first
// one does. All that the emulator knows is in its memory, so its Pod is never started twice. The tests read its journal
// and set faults through its admin listener, which answers on the node's loopback only and is reached by a port forward.
//
// What a user does with clusterctl the tests do with the clusterctl binary: init, generate, describe, get kubeconfig,
// move, rollout. What a user does with kubectl they do with a client. Nothing is read from inside our manager.
//
// # Specs
//
// The list of specs is in specs_test.go. Each has a namespace and a portal account of its own, so the journal of that
// account is the spec's. Those that end the manager run alone and first, since a Cluster that is just being created would
// notice; the others run at the same time. Every spec ends with nothing left of it, here and at the portal. When all
// have ended, the portal must not have refused any request as against the specification, and no container may have
// been restarted that no spec has killed.
//
// A table of all specs with their durations is printed at the end. When a spec fails, _artifacts/ receives what
// clusterctl describes, the objects and events of its namespace, its account's journal, and the logs of all managers.
// Secrets are not among it.
//
// # Variables
//
// All are optional; without them kind's and clusterctl's own sources are used, which need a registry.
//
//	KIND_NODE_IMAGE        image of kind's nodes (default: kind's)
//	E2E_KIND_CONFIG        file with kind's configuration of a cluster (default: none)
//	E2E_LOAD_IMAGES        images, separated by blanks or commas, to load from docker beside ours, such as those of core
//	E2E_CLUSTERCTL_CONFIG  clusterctl's configuration file, to which the tests add this provider (default: none)
//	E2E_CLUSTERCTL         the clusterctl to use (default: bin/clusterctl)
//	E2E_USE_EXISTING       kubeconfig of an existing management cluster; nothing is loaded into it: its nodes pull
//	                       our image, and that of E2E_EMULATOR_IMAGE, for themselves. What was installed is removed.
//	E2E_EMULATOR_IMAGE     image of the emulator (default: one is built from bin/ and loaded)
//	E2E_KEEP               not empty: clusters stay, and the end of the output says how to reach them
//	E2E_ARTIFACTS          directory for what explains why a spec failed (default: _artifacts)
package e2e
