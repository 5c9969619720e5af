// SPDX-License-Identifier: Apache-2.0

// Package portals takes clusters through their lives at random portals, each of which follows the specification. It has only tests.
//
//	go test ./test/portals -lives 10000             # more than make test does
//	go test ./test/portals -only 4711 -v            # one life again, step by step
//
// A seed decides the portal's behavior and timing (portal_test.go), which failures happen (cause_test.go), and what the operator does
// (operator_test.go). The operator follows the provider's rules: it creates a network and a cluster, scales the cluster up and down,
// upgrades it, and deletes it. Time is virtual.
//
// The judge (judge_test.go) compares every error with the injected faults: the provider's condition must name that cause and no other.
// Every life must end as requested, without a second cluster of the same name.
package portals
