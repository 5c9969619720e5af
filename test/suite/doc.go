// SPDX-License-Identifier: Apache-2.0

// Package suite has the parts that all test suites with a sandbox need.
//
// TestMain calls Main, which starts the sandbox, runs the tests and closes the sandbox (main.go). A test that needs another sandbox calls
// StartFor, and one that only make nightly runs calls Nightly (night.go). Accounts are the portal accounts of a suite. Each test takes one
// (accounts.go).
//
// A Fixture is a test with its namespace and its portal account. It creates, reads and changes objects (fixture.go), reads the Nodes of the
// workload cluster (workload.go) and the portal's request log (portal.go), and waits for changes by watches (watch.go). Suites embed it in a
// type with their own helpers. NewObjects returns the objects of a Cluster with two workers (objects.go).
package suite
