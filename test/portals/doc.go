// SPDX-License-Identifier: Apache-2.0

// Package portals takes clusters through their lives at random portals, each of which follows the specification. It
// holds nothing but tests.
//
//	go test ./test/portals -lives 10000             # more than make test does
//	go test ./test/portals -only 4711 -v            # one life again, step by step
//
// A seed decides the portal's shapes and timing (portal_test.go), what goes wrong and why (cause_test.go), and what the
// operator does (operator_test.go): it creates a network and a cluster, scales it up and down, upgrades it, and deletes
// it, by the rules of the provider. Time is virtual.
//
// The judge (judge_test.go) compares every error with what was injected: the condition that the provider would show has
// to name that cause and no other. Every life has to end as asked, without a second cluster of a name.
package portals
