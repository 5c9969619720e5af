// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// plan is a life before it is lived: the portal, what users do there, and what goes wrong.
type plan struct {
	Seed   uint64
	Portal emulator.Options
	CIDR   string
	Ties   bool
	// HealthCheck has MachineHealthChecks replace the Machines of nodes that fail or are in trouble.
	HealthCheck bool
	Faults      Faults
	// Troubles of the portal, from the start.
	Troubles []emulator.Fault
	Steps    []step
}

// step is an act, with numbers that decide its details, and the time until the next one.
type step struct {
	Act  string
	N, M int
	Gap  time.Duration
}

// drawPlan draws a life. What it draws depends on the seed alone.
func drawPlan(seed uint64) plan {
	r := newRand(seed, "plan")
	p := plan{Seed: seed, Portal: drawPortal(seed), CIDR: oneOf(r, "", "10.1.0.0/24"), Ties: once(r, 4), HealthCheck: once(r, 3), Faults: drawFaults(r)}
	for n := range r.IntN(5) {
		if f, ok := causes[r.IntN(len(causes))].draw(r, p.Troubles, n); ok {
			p.Troubles = append(p.Troubles, f)
		}
	}
	weights := 0
	for _, a := range acts {
		weights += a.weight
	}
	for range 4 + r.IntN(4) {
		drawn := r.IntN(weights)
		i := slices.IndexFunc(acts, func(a act) bool { drawn -= a.weight; return drawn < 0 })
		gap := oneOf(r, 5*time.Second, 2*time.Minute, 15*time.Minute)
		p.Steps = append(p.Steps, step{acts[i].name, r.IntN(1000), r.IntN(1000), time.Duration(r.Int64N(int64(gap))).Round(time.Millisecond)})
	}
	return p
}

func drawFaults(r *rand.Rand) Faults {
	f := Faults{}
	if once(r, 2) {
		f.Stale, f.MostStale = 0.25, between(r, time.Second, 5*time.Second)
	}
	if once(r, 3) {
		f.Pauses, f.MostPause = 0.1, between(r, time.Second, 5*time.Second)
	}
	if once(r, 2) {
		f.Crashes, f.CrashWithin = 1+r.IntN(6), 60
	}
	return f
}

// draw returns a fault of the cause. At an endpoint that has one already, a second fault would make a third one, so there it draws none.
func (c *cause) draw(r *rand.Rand, taken []emulator.Fault, n int) (emulator.Fault, bool) {
	f, at := c.fault(r), oneOf(r, c.at...)
	f.ID, f.Method, f.Path = fmt.Sprintf("%s#%d", c.name, n), at.method, at.path
	if f.OthersPerMinute == 0 {
		f.Nth, f.Count = oneOf(r, 1, 1, 1, 2, 3), 1+r.IntN(3)
	}
	return f, !slices.ContainsFunc(taken, func(t emulator.Fault) bool { return t.Method == f.Method && t.Path == f.Path })
}

// oneOf returns one of the values at random.
func oneOf[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// once returns true at random, once in n calls.
func once(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// between returns a random duration between from and to.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return (from + time.Duration(r.Int64N(int64(to-from)+1))).Round(time.Millisecond)
}

// totpSeed of the users who need one-time codes.
const totpSeed = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"

// drawPortal draws a portal that follows the specification.
func drawPortal(seed uint64) emulator.Options {
	r := newRand(seed, "portal")
	user := emulator.User{Email: email, Password: password, Role: emulator.RoleAdministrator}
	if once(r, 3) {
		user.TOTPSeed = totpSeed
	}
	o := emulator.Options{
		Users: []emulator.User{user}, Shapes: drawShapes(r), Durations: drawDurations(r), Versions: drawVersions(r), Traits: drawTraits(r),
		VictimOrder:    oneOf(r, emulator.VictimsNewest, emulator.VictimsOldest, emulator.VictimsRandom),
		UpgradeStyle:   oneOf(r, emulator.UpgradeInPlace, emulator.UpgradeRecreate, emulator.UpgradeReplace, emulator.UpgradeSurge),
		ControlMarks:   oneOf(r, emulator.MarkedBoth, emulator.MarkedLabel),
		ProviderIDs:    once(r, 2),
		ReuseNodeNames: once(r, 2),
		ListClusters:   once(r, 2),
		BasePath:       oneOf(r, "", "/api", "/api/v1"),
		RateLimit: oneOf(r, emulator.RateLimit{}, emulator.RateLimit{}, emulator.RateLimit{PerMinute: 3000, Burst: 500},
			emulator.RateLimit{PerMinute: 60, Burst: 10}),
	}
	if user.TOTPSeed == "" { // one-time codes depend on the clock
		o.ClockSkew = oneOf(r, 0, 0, 2*time.Hour, -2*time.Hour, 3*time.Second)
	}
	return o
}

func drawShapes(r *rand.Rand) emulator.Shapes {
	s := emulator.Shapes{
		OTPTokenField:    oneOf(r, "token", "accessToken", "access_token", "jwt", "authToken", "bearer"),
		OTPTokenIn:       oneOf(r, "", "", "data", "session"),
		SendOTPStatus:    oneOf(r, 200, 202, 204),
		CredentialsCode:  oneOf(r, "INVALID_CREDENTIALS", "INVALID_TOKEN", "INVALID_PARAMETER"),
		CreatedID:        oneOf(r, emulator.IDNested, emulator.IDFlat, emulator.IDBeside, emulator.IDDeep),
		NetworkStatus:    oneOf(r, 200, 201, 202),
		VolumeStatus:     oneOf(r, 200, 202, 204),
		JobError:         oneOf(r, emulator.JobErrorObject, emulator.JobErrorString, emulator.JobErrorWhole),
		InstancesKey:     oneOf(r, "instances", "items", "-"),
		LookupStatus:     oneOf(r, 0, 0, 200, 400, 401, 403, 404, 422, 500, 501, 503),
		ExtraFields:      once(r, 2),
		NumbersAsText:    once(r, 3),
		BareVersions:     once(r, 2),
		VersionBuild:     oneOf(r, "", "portal.1"),
		TokensWithoutExp: once(r, 3),
		RetryAfterDate:   once(r, 3),
		QuietLimits:      once(r, 2),
		ResetSeconds:     oneOf(r, 0, 60, 3600),
		WindowRemaining:  once(r, 2),
	}
	s.LookupPage = s.LookupStatus != 0 && once(r, 3)
	if once(r, 2) {
		s.CodeStatus = drawPairing(r)
	}
	return s
}

// drawPairing draws a status for each code from the specification's list. The specification fixes two codes: INVALID_TOKEN is sent with
// 401, which is only about tokens, and RATE_LIMITED with 429.
func drawPairing(r *rand.Rand) map[string]int {
	pairs := map[string]int{}
	for _, code := range []string{
		emulator.CodeInvalidParameter, emulator.CodeMFARequired, emulator.CodeResourceNotFound, emulator.CodeResourceBusy,
		emulator.CodeQuotaExceeded, emulator.CodeInsufficientCapacity, emulator.CodeOperationNotAllowed,
	} {
		pairs[code] = oneOf(r, 400, 403, 404, 409, 422, 500, 503)
	}
	return pairs
}

// drawDurations draws how long jobs take: nothing, or up to minutes, so that hours of a life cost little.
func drawDurations(r *rand.Rand) emulator.Durations {
	if once(r, 3) {
		return emulator.Durations{Pending: -1, Create: -1, Scale: -1, Upgrade: -1, Delete: -1, VPC: -1, Network: -1}
	}
	long := func(most time.Duration) time.Duration { return between(r, time.Second, most) }
	return emulator.Durations{
		Pending: long(30 * time.Second), Create: long(5 * time.Minute), Scale: long(5 * time.Minute), Upgrade: long(5 * time.Minute),
		Delete: long(5 * time.Minute), Network: long(2 * time.Minute), Spread: 0.2,
	}
}

// drawVersions draws the state of each version, because the specification does not list the values, and their order.
func drawVersions(r *rand.Rand) []emulator.Version {
	versions := emulator.DefaultVersions()
	for i := range versions {
		versions[i].State = oneOf(r, "Enabled", "available", "SUPPORTED", "deprecated")
	}
	r.Shuffle(len(versions), func(i, j int) { versions[i], versions[j] = versions[j], versions[i] })
	return versions
}

// drawTraits draws each trait alone.
func drawTraits(r *rand.Rand) emulator.Traits {
	sometimes := func(d time.Duration) time.Duration { return oneOf(r, 0, 0, 0, d) }
	t := emulator.Traits{
		RefusalsByJob: once(r, 4), UpgradesRestart: once(r, 4), UpgradesByStep: once(r, 4), KubeconfigOnce: once(r, 4), LimitsAllNodes: once(r, 4),
		NetworksForOne: once(r, 4), ShortNames: once(r, 4), UniqueNames: once(r, 4), RedundantFails: once(r, 4),
		NodeUpgrade: sometimes(time.Minute), ScanInterval: sometimes(5 * time.Minute), NamesReserved: sometimes(time.Hour),
		DeletionsCollected: sometimes(10 * time.Minute), RemainsFor: sometimes(5 * time.Minute),
	}
	if t.RemainsFor > 0 {
		t.DeletedClusters = oneOf(r, "", emulator.DeletedHidden, emulator.DeletedReadable)
	}
	return t
}
