// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the provider as users install it. clusterctl installs Cluster API's core, our release manifests and our image from a
// local repository on a kind management cluster. The emulated portal runs as a Pod.
//
//	make test-e2e
//	go test -tags e2e,fieldsv1string ./test/e2e -v -timeout 60m -run 'TestSpecs/together/^move'
//
// # What runs where
//
// The tests create a kind cluster with kind's Go packages, and load images from docker into its nodes. The emulator runs on one of the
// nodes and uses the node's network. So the portal and the API servers of all its clusters have that node's address, and the second
// management cluster of the spec of clusterctl move can reach them too. The emulator keeps its state in memory, so its Pod is never
// restarted. The tests read its request log and set faults through its admin listener. The listener is on the node's loopback only, so the
// tests use a port forward.
//
// The tests use the clusterctl binary for a user's clusterctl commands: init, generate, describe, get kubeconfig, move, upgrade. They use a
// client for a user's kubectl commands. They read nothing from inside our manager.
//
// # Specs
//
// specs_test.go has the list of specs. Each spec has its own namespace and portal account, so the request log of the account holds only the
// spec's requests. Specs that end the manager run first, one at a time, because they would disturb a Cluster that is being created. All
// others run concurrently. Every spec ends with nothing left in its namespace and at the portal. After the last spec, the tests check that
// the portal has refused no request as a violation of the specification, and that no container was restarted unless a spec killed it.
//
// When a spec fails, the tests write to _artifacts/ the output of clusterctl describe, the objects and events of the spec's namespace, the
// request log of its account, and the logs of all managers. The artifacts contain no Secrets.
//
// # Variables
//
// All variables are optional. Without them the tests use kind's and clusterctl's default sources, which need a registry.
//
//	KIND_NODE_IMAGE        image of kind's nodes (default: kind's)
//	E2E_KIND_CONFIG        file with kind's configuration of a cluster (default: none)
//	E2E_LOAD_IMAGES        images, separated by blanks or commas, to load from docker beside ours, such as those of core
//	E2E_CLUSTERCTL_CONFIG  clusterctl's configuration file, to which the tests add this provider (default: none)
//	E2E_CLUSTERCTL         the clusterctl to use (default: bin/clusterctl)
//	E2E_USE_EXISTING       kubeconfig of an existing management cluster. The tests load no images into it: its nodes pull
//	                       our image and E2E_EMULATOR_IMAGE themselves. The tests remove what they installed.
//	E2E_EMULATOR_IMAGE     image of the emulator (default: one is built from bin/ and loaded)
//	E2E_KEEP               not empty: clusters stay, and the end of the output says how to reach them
//	E2E_ARTIFACTS          directory for what explains why a spec failed (default: _artifacts)
package e2e
