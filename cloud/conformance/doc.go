// SPDX-License-Identifier: Apache-2.0

// Package conformance checks a portal against the specification of its REST API: one named check per statement, or the
// reason why there is none. gaps_test.go lists what the specification leaves open. It is a module of its own, because it tests portals.
//
// # Against the emulator
//
//	go -C cloud/conformance test -v -run TestPortal
//
// Each check gets an emulator of its own, in-process and in virtual time, so that checks which take hours (a token's
// expiry) or use up the rate limit run in milliseconds. Checks of the connection itself use its TLS listener.
//
// # Against a portal
//
//	PORTAL_PASSWORD=… go -C cloud/conformance test -v -run TestPortal -timeout 2h -args \
//	    -portal-url https://portal.example/api -email robot@portal.example -ca-file ca.pem -report-markdown report.md
//
// or make conformance, which builds the same as a program.
//
// Secrets come from the environment, never from a flag. PORTAL_PASSWORD is required. PORTAL_TOTP_SEED is for a user with MFA, and
// PORTAL_OTHER_PASSWORD for the user of another account that -other-email names. Only -create lets checks make VPCs, networks and
// clusters, which may cost money. Clusters are deleted again. VPCs and networks stay, since the specification has no endpoint
// that deletes them. Only -exhaust lets a check use up the account's rate limit, which other users of the account will notice. A
// check that lacks a permission or a user is skipped, and prints the reason.
//
// # Where things are
//
// The statements are in statements_*_test.go, in the specification's order. TestDoc writes docs/development/conformance.md from
// them (-run TestDoc -update). Each topic has a file with its checks. Checks send raw HTTP through a probe (probe_test.go) and
// share nothing with package cloud. Only check_client_test.go uses the client, for the specification's statements about
// clients. A resource that a check makes is recorded when the portal accepts it, and removed in any case (tidy_test.go).
// report_test.go has the effect of a failed check on the provider. A site (site_test.go) is a portal under test, with its users
// and permissions.
package conformance
