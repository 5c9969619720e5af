// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
)

const busyRetry = 10 * time.Second

// From maps an error of the portal to what it means for a step. What a person has to change is a Stalled, what passes by
// itself a Wait; a "come back at t" of the account's governor is a Retry and never shows as a failure.
func From(err error) Outcome {
	if at, ok := cloud.RetryAt(err); ok && cloud.IsRateLimited(err) && !cloud.IsAnyServers(err) {
		return RetryAfter(time.Until(at))
	}
	o := classify(err)
	if at, ok := cloud.RetryAt(err); ok {
		o.After = max(o.After, time.Until(at))
	}
	return o
}

// stalled are the errors that a person has to do something about, the more specific ones first.
var stalled = []struct {
	is         func(error) bool
	reason, do string
}{
	{cloud.IsMFARequired, infrav1.MFARequiredReason, "add key totpSeed to the identity Secret, or use a portal user without MFA"},
	{cloud.IsCodeRefused, infrav1.UnauthorizedReason, "check key totpSeed of the identity Secret, and the clocks of the manager and the portal"},
	{cloud.IsTokenRefused, infrav1.UnauthorizedReason, "report this to the portal's support: it refuses the token that it has just issued"},
	{cloud.IsUnauthorized, infrav1.UnauthorizedReason, "correct email and password in the identity Secret"},
	{cloud.IsForbidden, infrav1.ForbiddenReason, "give the portal user the right to do this, or use another user in the identity Secret"},
	{cloud.IsQuota, infrav1.QuotaExceededReason, "ask for less, free something in the account, or have its quota raised"},
	{cloud.IsCapacity, infrav1.InsufficientCapacityReason, "the zone lacks capacity now; trying again"},
	{cloud.IsNotFound, infrav1.NotFoundReason, "check the identifier, and that it belongs to the account of the identity Secret"},
	{cloud.IsInvalid, infrav1.RefusedReason, "change what the portal refuses"},
	{cloud.IsNotAllowed, infrav1.RefusedReason, "change what the portal refuses"},
}

func classify(err error) Outcome {
	switch {
	case cloud.IsUnknownOutcome(err):
		return StallFor(0, infrav1.OutcomeUnknownReason, "the call was cut off: %v", err)
	case cloud.IsHostRefused(err):
		o := StallFor(0, infrav1.IdentityInvalidReason, "baseURL in the identity Secret leads to a host that this manager may not connect to. "+
			"Correct it, or ask the administrator of the manager to allow the host (flag --portal-host)")
		o.Cause = err
		return o
	case cloud.IsBusy(err):
		return WaitFor(busyRetry, infrav1.PortalBusyReason, "another operation holds the portal cluster; waiting for it")
	}
	if unreachable(err) {
		return unreachableOutcome(err)
	}
	for _, s := range stalled {
		if s.is(err) {
			return StallFor(0, s.reason, "%s; the portal says: %v", s.do, err)
		}
	}
	return WaitFor(firstRetry, infrav1.InternalErrorReason, "the portal answered in a way that is not understood; trying again: %v", err)
}

// unreachable reports whether the portal did not answer, or something else may have answered in its place.
func unreachable(err error) bool { return cloud.IsUnavailable(err) || cloud.IsAnyServers(err) }

// unreachableOutcome says one thing, whatever the cause. The user of the Secret chooses the host: a message that told a closed port
// from a server without TLS, an unknown name or an HTTP status would show them the network of the manager.
func unreachableOutcome(err error) Outcome {
	o := WaitFor(firstRetry, infrav1.PortalUnavailableReason, "the portal cannot be reached, or what answers is not its API; trying again. "+
		"If it stays so, check the identity Secret. The manager's log has the cause")
	o.Cause = err
	return o
}
