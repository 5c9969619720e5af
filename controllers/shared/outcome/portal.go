// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"cmp"
	"errors"
	"regexp"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
)

const (
	busyRetry       = 10 * time.Second
	unansweredRetry = 15 * time.Second
)

// FromPortalError maps an error of the portal to an outcome. An error that needs a person is Stalled, and one that is expected
// to pass is a Wait. If the account's limiter has no token, the outcome is a Retry, which never shows as a failure.
func FromPortalError(err error) Outcome {
	if at, ok := cloud.RetryAt(err); ok && cloud.IsRateLimited(err) && !cloud.IsGenericRefusal(err) {
		return RetryAfter(time.Until(at))
	}
	o := classify(err)
	if at, ok := cloud.RetryAt(err); ok {
		o.RequeueAfter = max(o.RequeueAfter, time.Until(at))
	}
	return o
}

// Text is the text of an error with the id of its request. cloud.Error leaves the id out, so that equal causes have equal texts.
func Text(err error) string { return err.Error() + RequestID(err) }

// RequestID returns the id of the request that failed as messages show it, or "". The portal's support asks for it (specification,
// Error object).
func RequestID(err error) string {
	var refusal *cloud.Error
	if !errors.As(err, &refusal) || refusal.RequestID == "" {
		return ""
	}
	return " (requestId " + refusal.RequestID + ")"
}

var requestIDs = regexp.MustCompile(` \(requestId [^)]*\)`)

// alike reports whether two messages say the same about different requests.
func alike(a, b string) bool {
	return requestIDs.ReplaceAllString(a, "") == requestIDs.ReplaceAllString(b, "")
}

// Unanswered is the outcome if an error of the portal leaves open whether something exists there. The conditions stay as they are.
func Unanswered(err error) Outcome {
	return RetryAfter(max(FromPortalError(err).RequeueAfter, unansweredRetry))
}

// stalled are the errors that need a person, the more specific ones first, with the state and what to do.
var stalled = []struct {
	is                func(error) bool
	reason, state, do string
}{
	{cloud.IsMFARequired, infrav1.MFARequiredReason, "the portal asks for a one-time code", "Add key totpSeed to the identity Secret, or use a portal user without MFA"},
	{cloud.IsCodeRefused, infrav1.UnauthorizedReason, "the portal refused the one-time code", "If this lasts for minutes, check key totpSeed " +
		"of the identity Secret, and the clocks of the manager and the portal"},
	{cloud.IsTokenRefused, infrav1.UnauthorizedReason, "the portal refuses the token that it has just issued", "Report this to the portal's support"},
	{cloud.IsUnauthorized, infrav1.UnauthorizedReason, "the portal refused the login", "Correct email and password in the identity Secret"},
	{cloud.IsForbidden, infrav1.RefusedReason, "the portal user may not do this", "Give the user the right to do it, or use another user in the identity Secret"},
	{cloud.IsQuota, infrav1.RefusedReason, "the quota of the portal account does not allow this", "Ask for less, delete something in the account, or have its quota raised"},
	{cloud.IsCapacity, infrav1.InsufficientCapacityReason, "the zone lacks capacity", "The provider tries again"},
	{cloud.IsNotFound, infrav1.RefusedReason, "the portal does not know the identifier", "Check the identifier, and that it belongs to the account of the identity Secret"},
	{cloud.IsInvalid, infrav1.RefusedReason, "the portal refused the request", "Change what the portal refuses"},
	{cloud.IsNotAllowed, infrav1.RefusedReason, "the portal refuses changes in the present state of the resource", "The provider tries again. " +
		"If this lasts, the portal's operator has to repair the resource"},
}

// fields maps the parameters of the portal's requests to the fields that users set. A parameter that means another thing in one request
// has the request in front of it.
var fields = map[string]string{
	"name":                "spec.clusterName of the PortalControlPlane",
	"description":         "spec.description of the PortalControlPlane",
	"zoneId":              "spec.zoneID of the PortalCluster",
	"kubernetesVersionId": "spec.version of the PortalControlPlane",
	"serviceOfferingId":   "serviceOfferingID in the workers' templates, or in spec.workers of the PortalControlPlane",
	"sshKeyPair":          "sshKeyPair in the workers' templates, or in spec.workers of the PortalControlPlane",
	"size":                "the replicas of the MachineDeployments or of the MachinePool",
	"controlNodes":        "spec.replicas of the PortalControlPlane",
	"networkId":           "spec.network of the PortalCluster",
	"vpcId":               "spec.vpc of the PortalCluster",
	"cidr":                "spec.network.cidr of the PortalCluster",
	"POST /vpcs name":     "spec.vpc.name of the PortalCluster",
}

// whatToDo names the field to correct if the portal named the parameter that it refuses, or else returns the general advice.
func whatToDo(err error, general string) string {
	var refusal *cloud.Error
	if !errors.As(err, &refusal) || !cloud.IsInvalid(err) && !cloud.IsNotFound(err) {
		return general
	}
	field := cmp.Or(fields[refusal.Endpoint+" "+refusal.Field], fields[refusal.Field])
	if field == "" {
		return general
	}
	return "Correct " + field
}

func classify(err error) Outcome {
	switch {
	case cloud.IsUnknownOutcome(err):
		return StallFor(0, infrav1.OutcomeUnknownReason, "the connection was cut: %s", Text(err))
	case cloud.IsHostRefused(err):
		o := StallFor(0, infrav1.IdentityInvalidReason, "baseURL in the identity Secret leads to a host that this manager may not connect to. "+
			"Correct it, or ask the administrator of the manager to allow the host (flag --portal-host)")
		o.Cause = err
		return o
	case cloud.IsBusy(err):
		return WaitFor(busyRetry, infrav1.PortalBusyReason, "the portal is busy with another operation on this cluster%s. The provider tries again", RequestID(err))
	}
	if isUnreachable(err) {
		return unreachableOutcome(err)
	}
	for _, s := range stalled {
		if s.is(err) {
			return StallFor(0, s.reason, "%s: %s. %s", s.state, Text(err), whatToDo(err, s.do))
		}
	}
	return WaitFor(firstRetry, infrav1.InternalErrorReason, "the portal's answer is not understood: %s. The provider tries again", Text(err))
}

// isUnreachable reports whether the portal did not answer, or another server may have answered in its place.
func isUnreachable(err error) bool { return cloud.IsUnavailable(err) || cloud.IsGenericRefusal(err) }

// unreachableOutcome has the same message for every cause. The user of the Secret chooses the host. If the message distinguished
// a closed port from a server without TLS, an unknown name or an HTTP status, it would show them the network of the manager. Only a
// portal sends the documented error with an id, which says no more than that a portal is there.
func unreachableOutcome(err error) Outcome {
	id := ""
	if cloud.IsDocumented(err) {
		id = RequestID(err)
	}
	o := WaitFor(firstRetry, infrav1.PortalUnavailableReason, "the portal cannot be reached, or another server answers in its place%s. The provider tries again. "+
		"If this lasts, check the identity Secret and the manager's log, which has the cause", id)
	o.Cause = err
	return o
}
