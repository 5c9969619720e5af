// SPDX-License-Identifier: Apache-2.0

// Package suite is what test suites with a sandbox share.
//
// TestMain calls Main, which starts the sandbox, runs the tests and closes the sandbox. Accounts are portal accounts, of which each test
// takes one. A Fixture is a test with a namespace and a portal account of its own. It reads and changes objects of the namespace, and reads
// what the portal knows of the account. Objects are those of one Cluster with two workers.
package suite
