// SPDX-License-Identifier: Apache-2.0

package portals

import (
	"math/rand/v2"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// Credentials of the portal's user.
const (
	email    = "robot@portal.example"
	password = "Correct-Horse-7"
	seed     = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
)

// one returns one of the values at random.
func one[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// once returns true at random, once in n calls.
func once(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// between returns a random duration between from and to.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)+1))
}

// legalPortal draws a portal that follows the specification.
func legalPortal(r *rand.Rand, seed64 int64) emulator.Options {
	user := emulator.User{Email: email, Password: password}
	if once(r, 3) {
		user.TOTPSeed = seed
	}
	o := emulator.Options{
		Seed: seed64, Users: []emulator.User{user}, Shapes: legalShapes(r), Durations: legalDurations(r),
		Versions:       legalVersions(r),
		VictimOrder:    one(r, emulator.VictimsNewest, emulator.VictimsOldest, emulator.VictimsRandom),
		UpgradeStyle:   one(r, emulator.UpgradeInPlace, emulator.UpgradeRecreate, emulator.UpgradeReplace, emulator.UpgradeSurge),
		ProviderIDs:    once(r, 2),
		ReuseNodeNames: once(r, 2),
		ListClusters:   once(r, 2),
		BasePath:       one(r, "", "/api", "/api/v1"),
		RateLimit: one(r, emulator.RateLimit{}, emulator.RateLimit{}, emulator.RateLimit{PerMinute: 3000, Burst: 500},
			emulator.RateLimit{PerMinute: 60, Burst: 10}),
	}
	if user.TOTPSeed == "" { // one-time codes depend on the clock
		o.ClockSkew = one(r, 0, 0, 2*time.Hour, -2*time.Hour, 3*time.Second)
	}
	return o
}

func legalShapes(r *rand.Rand) emulator.Shapes {
	s := emulator.Shapes{
		OTPTokenField:    one(r, "token", "accessToken", "access_token", "jwt", "authToken", "bearer"),
		OTPTokenIn:       one(r, "", "", "data", "session"),
		SendOTPStatus:    one(r, 200, 202, 204),
		CredentialsCode:  one(r, "INVALID_CREDENTIALS", "INVALID_TOKEN", "INVALID_PARAMETER"),
		CreatedID:        one(r, emulator.IDNested, emulator.IDFlat, emulator.IDBeside, emulator.IDDeep),
		NetworkStatus:    one(r, 200, 201, 202),
		VolumeStatus:     one(r, 200, 202, 204),
		JobError:         one(r, emulator.JobErrorObject, emulator.JobErrorString, emulator.JobErrorWhole),
		InstancesKey:     one(r, "instances", "items", "-"),
		LookupStatus:     one(r, 0, 0, 200, 400, 401, 403, 404, 422, 500, 501, 503),
		ExtraFields:      once(r, 2),
		NumbersAsText:    once(r, 3),
		BareVersions:     once(r, 2),
		VersionBuild:     one(r, "", "portal.1"),
		TokensWithoutExp: once(r, 3),
		RetryAfterDate:   once(r, 3),
		QuietLimits:      once(r, 2),
		ResetSeconds:     one(r, 0, 60, 3600),
		WindowRemaining:  once(r, 2),
	}
	s.LookupPage = s.LookupStatus != 0 && once(r, 3)
	if once(r, 2) {
		s.CodeStatus = legalPairing(r)
	}
	return s
}

// legalPairing draws a status for each code from the specification's list. The specification fixes two codes: INVALID_TOKEN is sent with
// 401, which is only about tokens, and RATE_LIMITED with 429.
func legalPairing(r *rand.Rand) map[string]int {
	pairs := map[string]int{}
	for _, code := range []string{
		emulator.CodeInvalidParameter, emulator.CodeMFARequired, emulator.CodeResourceNotFound, emulator.CodeResourceBusy,
		emulator.CodeQuotaExceeded, emulator.CodeInsufficientCapacity, emulator.CodeOperationNotAllowed,
	} {
		pairs[code] = one(r, 400, 403, 404, 409, 422, 500, 503)
	}
	return pairs
}

func legalDurations(r *rand.Rand) emulator.Durations {
	if once(r, 3) {
		return emulator.Durations{Pending: -1, Create: -1, Scale: -1, Upgrade: -1, Delete: -1, VPC: -1, Network: -1}
	}
	long := func(most time.Duration) time.Duration { return between(r, time.Second, most) }
	return emulator.Durations{
		Pending: long(time.Minute), Create: long(20 * time.Minute), Scale: long(10 * time.Minute), Upgrade: long(20 * time.Minute),
		Delete: long(10 * time.Minute), Network: long(5 * time.Minute),
	}
}

// legalVersions draws the state of each version, because the specification does not list the values.
func legalVersions(r *rand.Rand) []emulator.Version {
	versions := emulator.DefaultVersions()
	for i := range versions {
		versions[i].State = one(r, "Enabled", "available", "SUPPORTED", "Disabled", "deprecated")
	}
	r.Shuffle(len(versions), func(i, j int) { versions[i], versions[j] = versions[j], versions[i] })
	return versions
}
