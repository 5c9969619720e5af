// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the provider as users install it. clusterctl installs Cluster API's core, our release manifests and our image from a
// local repository on a kind management cluster. The emulated portal runs as a Pod.
//
//	make test-e2e
//	go test -tags e2e,fieldsv1string ./test/e2e -v -timeout 60m -run TestQuickStart
//
// # What runs where
//
// The tests create a kind cluster with kind's Go packages, and load images from docker into its nodes. The emulator runs on one of the
// nodes and uses the node's network, so the portal and the API servers of all its clusters have that node's address. The emulator keeps its
// state in memory, so its Pod is never restarted. The tests read its request log and set a fault through its admin listener. The listener is
// on the node's loopback only, so the tests use port forwards.
//
// The tests use the clusterctl binary for a user's clusterctl commands: init, generate, get kubeconfig, upgrade. They use a client for a
// user's kubectl commands. They read nothing from inside our manager. Lives that need no images and no kubelets run in sandboxes: test/stories
// kills the manager, test/ownership moves Clusters, and test/gitops uses a ClusterClass.
//
// Each test ends with nothing left in its namespace and at the portal. By then the portal has refused no request as a violation of the
// specification, and no container was restarted.
//
// A test that fails logs the objects in its namespace and the portal's request log. If a test fails, the logs of all managers are written to
// _artifacts/. Neither contains Secrets.
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
//	E2E_KEEP               not empty: the cluster stays, and the end of the output says how to reach it
//	E2E_ARTIFACTS          directory for the logs of a run that failed (default: _artifacts)
package e2e
