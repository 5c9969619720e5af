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
	if at, ok := cloud.RetryAt(err); ok && cloud.IsRateLimited(err) {
		return RetryAfter(time.Until(at))
	}
	o := classify(err)
	if at, ok := cloud.RetryAt(err); ok {
		o.After = max(o.After, time.Until(at))
	}
	return o
}

func classify(err error) Outcome {
	is := func(reason, do string) Outcome {
		return StallFor(0, reason, "%s; the portal says: %v", do, err)
	}
	switch {
	case cloud.IsUnknownOutcome(err):
		return StallFor(0, infrav1.OutcomeUnknownReason, "the call was cut off: %v", err)
	case cloud.IsBusy(err):
		return WaitFor(busyRetry, infrav1.PortalBusyReason, "another operation holds the portal cluster; waiting for it")
	case cloud.IsMFARequired(err):
		return is(infrav1.MFARequiredReason, "add key totpSeed to the identity Secret, or use a portal user without MFA")
	case cloud.IsCodeRefused(err):
		return is(infrav1.UnauthorizedReason, "check key totpSeed of the identity Secret, and the clocks of the manager and the portal")
	case cloud.IsTokenRefused(err):
		return is(infrav1.UnauthorizedReason, "report this to the portal's support: it refuses the token that it has just issued")
	case cloud.IsUnauthorized(err):
		return is(infrav1.UnauthorizedReason, "correct email and password in the identity Secret")
	case cloud.IsNotPortal(err):
		return is(infrav1.IdentityInvalidReason, "check baseURL in the identity Secret: what answers there does not speak the portal's API")
	case cloud.IsForbidden(err):
		return is(infrav1.ForbiddenReason, "give the portal user the right to do this, or use another user in the identity Secret")
	case cloud.IsQuota(err):
		return is(infrav1.QuotaExceededReason, "ask for less, free something in the account, or have its quota raised")
	case cloud.IsCapacity(err):
		return is(infrav1.InsufficientCapacityReason, "the zone lacks capacity now; trying again")
	case cloud.IsNotFound(err):
		return is(infrav1.NotFoundReason, "check the identifier, and that it belongs to the account of the identity Secret")
	case cloud.IsInvalid(err), cloud.IsNotAllowed(err):
		return is(infrav1.RefusedReason, "change what the portal refuses")
	case cloud.IsUntrusted(err):
		return WaitFor(firstRetry, infrav1.PortalUnavailableReason, "%v; correct caBundle in the identity Secret", err)
	case cloud.IsUnavailable(err):
		return WaitFor(firstRetry, infrav1.PortalUnavailableReason, "the portal cannot be reached or does not serve; trying again: %v", err)
	}
	return WaitFor(firstRetry, infrav1.InternalErrorReason, "the portal answered in a way that is not understood; trying again: %v", err)
}
