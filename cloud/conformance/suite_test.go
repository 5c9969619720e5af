// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"slices"
	"testing"
	"testing/synctest"
)

var (
	portalURL  = flag.String("portal-url", "", "base URL of the portal to check; default: emulators in this process")
	email      = flag.String("email", "", "portal user; the password is read from PORTAL_PASSWORD, a TOTP seed from PORTAL_TOTP_SEED")
	otherEmail = flag.String("other-email", "", "user of another account; the password is read from PORTAL_OTHER_PASSWORD")
	caFile     = flag.String("ca-file", "", "PEM file with the authority of the portal's certificate; default: the system's")
	create     = flag.Bool("create", false, "let checks make VPCs, networks and clusters; clusters are deleted again")
	exhaust    = flag.Bool("exhaust", false, "let checks use up the account's rate limit for a while")
	zone       = flag.String("zone", "", "zoneId of clusters that checks make")
	offering   = flag.String("service-offering", "", "serviceOfferingId of clusters that checks make")
	sshKey     = flag.String("ssh-key-pair", "", "sshKeyPair of clusters that checks make")
	vpcName    = flag.String("vpc", "", "name of a VPC, for the name filter and for clusters that checks make")
	cidr       = flag.String("cidr", "10.250.0.0/24", "cidr of networks that checks make")
)

// check holds a portal to a statement.
type check struct {
	name string
	run  func(p *probe)
	// network: it is about the connection, so it needs a listener as well.
	network bool
}

// checks in the order in which they run at a real portal: what is made is shared, and deleted by the last ones.
func checks() []check {
	return slices.Concat(serviceChecks, loginChecks, tokenChecks, resetChecks, networkChecks, createChecks, jobChecks,
		errorChecks, refusalChecks, clusterChecks, endChecks, limitChecks, clientChecks)
}

// TestPortal runs all checks, at the emulator or at the portal that -portal-url names, and counts.
func TestPortal(t *testing.T) {
	if *portalURL == "" {
		runAll(t, atEmulators)
		return
	}
	s := described(t)
	s.acquaint(t)
	defer s.tidy(t) // not a Cleanup: the context of the test has ended by then
	runAll(t, atSite(s))
}

// place runs one check somewhere, and tells why it did not run to its end.
type place func(t *testing.T, c check, skipped *string)

// atEmulators gives each check an emulator of its own.
func atEmulators(t *testing.T, c check, skipped *string) {
	if c.network {
		c.run(&probe{TB: t, site: listening(t), skipped: skipped})
	}
	synctest.Test(t, func(t *testing.T) { c.run(&probe{TB: t, site: emulated(t), skipped: skipped}) })
}

// atSite runs all checks at one portal.
func atSite(s *site) place {
	return func(t *testing.T, c check, skipped *string) { c.run(&probe{TB: t, site: s, skipped: skipped}) }
}

func runAll(t *testing.T, at place) *result {
	r := newResult()
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			var skipped string
			t.Cleanup(func() { r.note(c.name, t.Failed(), skipped) })
			at(t, c, &skipped)
			if skipped != "" {
				t.Skip(skipped)
			}
		})
	}
	t.Log(r)
	return r
}
