// SPDX-License-Identifier: Apache-2.0

// Package conformance checks a portal against the specification of its REST API: one named check per statement, or the
// reason why there is none. gaps.go lists what the specification leaves open. The command portal-conformance runs the checks at a portal, and
// its help text says what they may do there.
//
// # Against the emulator
//
//	go test ./conformance -v -run TestEmulator
//
// Each check gets an emulator of its own, in-process and in virtual time, so that checks which take hours (a token's
// expiry) or use up the rate limit run in milliseconds. Some checks only run there, because they read the portal's records or set faults.
// TestBrokenPortals shows that each check notices a portal which breaks its statement. The tests of the command run it at an emulator that
// listens as a real portal does.
//
// # Where things are
//
// The statements are in statements_*.go, in the specification's order. TestDoc writes docs/development/conformance.md from
// them (-run TestDoc -update). Each topic has a file with its checks. run.go runs them. Checks send raw HTTP through a probe (probe.go) and
// share nothing with package cloud. Only check_client.go uses the client, for the specification's statements about
// clients. A resource that a check makes is recorded when the portal accepts it, and removed in any case (tidy.go).
// report.go has the effect of a failed check on the provider. A site (site.go) is a portal under test, with its users
// and permissions.
package conformance
