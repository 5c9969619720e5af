// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
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
	rateLimit  = flag.Int("rate-limit", 300, "requests per minute of the account's tier")
	rateBurst  = flag.Int("rate-burst", 50, "requests at once of the account's tier")
	maxWorkers = flag.Int("max-workers", 50, "workers that a cluster of the account may have")
	reportJSON = flag.String("report-json", "", "write what was found to this file, as JSON")
	reportMD   = flag.String("report-markdown", "", "write what was found to this file, as Markdown")
	cidr       = flag.String("cidr", "10.250.0.0/24", "cidr of networks that checks make")
)

// check tests whether a portal follows a statement.
type check struct {
	name string
	run  func(p *probe)
	// network is true if the check is about the connection, so that it needs a listener.
	network bool
}

// checks returns the checks in the order in which they run at a real portal. Checks share resources, and the last ones delete them.
func checks() []check {
	return slices.Concat(serviceChecks, loginChecks, tokenChecks, resetChecks, networkChecks, createChecks, jobChecks,
		errorChecks, refusalChecks, clusterChecks, gapChecks, endChecks, limitChecks, clientChecks)
}

// TestPortal runs all checks at the emulator, or at the portal that -portal-url names, and counts the results.
func TestPortal(t *testing.T) {
	if *portalURL == "" {
		runAll(t, newResult(), atEmulators)
		return
	}
	s := described(t)
	s.acquaint(t)
	interrupted, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var r *result
	defer func() { // not a Cleanup, which would run after the test's context has ended
		left := s.tidy(t)
		writeReports(t, newReport(*portalURL, r, s.shapes, left))
	}()
	r = newResult()
	runAll(t, r, func(t *testing.T, c check, e *ended) {
		if interrupted.Err() != nil {
			e.skipped = "interrupted"
			return
		}
		atSite(s)(t, c, e)
	})
}

// place runs one check at a portal.
type place func(t *testing.T, c check, e *ended)

// ended is the result of a check.
type ended struct {
	skipped  string            // why the check was skipped
	failures []string          // messages of the failures
	shapes   map[string]string // gap → the portal's shape
	left     []string          // created resources that are left
}

// atEmulators gives each check an emulator of its own.
func atEmulators(t *testing.T, c check, e *ended) { atEmulatorsLike(nil)(t, c, e) }

// atEmulatorsLike gives each check its own emulator with changed options. Resources that are left in its records are a failure. Checks of
// the client get an emulator with the usual options, because they are not about the portal.
func atEmulatorsLike(change func(*emulator.Options)) place {
	var changes []func(*emulator.Options)
	if change != nil {
		changes = append(changes, change)
	}
	return func(t *testing.T, c check, e *ended) {
		if strings.HasPrefix(c.name, "client/") {
			changes = nil
		}
		if c.network {
			c.run(&probe{TB: &reporter{TB: t, to: e}, site: listening(t, changes...), skipped: &e.skipped})
		}
		synctest.Test(t, func(t *testing.T) {
			s := emulated(t, changes...)
			done := make(chan struct{})
			go func() { // FailNow in a check must not skip the cleanup
				defer close(done)
				c.run(&probe{TB: &reporter{TB: t, to: e}, site: s, skipped: &e.skipped})
			}()
			<-done
			s.books.ClearFaults()
			time.Sleep(time.Hour) // until all jobs have ended
			e.left, e.shapes = s.tidy(t), s.shapes
			for _, cluster := range s.books.Clusters() {
				if cluster.State != emulator.ClusterFailed {
					t.Errorf("cluster %s is left, and the suite reports %q", cluster.Name, e.left)
				}
			}
		})
	}
}

// reporter forwards failures, and records their messages for the report. Its FailNow ends only the goroutine of the check.
type reporter struct {
	testing.TB
	to *ended
}

func (d *reporter) Error(args ...any)            { d.Errorf("%s", fmt.Sprint(args...)) }
func (d *reporter) Fatal(args ...any)            { d.Error(args...); runtime.Goexit() }
func (d *reporter) Fatalf(f string, args ...any) { d.Errorf(f, args...); runtime.Goexit() }
func (d *reporter) SkipNow()                     { runtime.Goexit() }
func (d *reporter) Errorf(f string, args ...any) {
	d.Helper()
	d.to.failures = append(d.to.failures, fmt.Sprintf(f, args...))
	d.TB.Errorf(f, args...)
}

// atSite runs all checks at one portal.
func atSite(s *site) place {
	return func(t *testing.T, c check, e *ended) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.run(&probe{TB: &reporter{TB: t, to: e}, site: s, skipped: &e.skipped})
		}()
		<-done
	}
}

func runAll(t *testing.T, r *result, at place) {
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			e := &ended{}
			t.Cleanup(func() { r.note(c.name, t.Failed(), e) })
			at(t, c, e)
			if e.skipped != "" {
				t.Skip(e.skipped)
			}
		})
	}
	t.Log(r)
}
