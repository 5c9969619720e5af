// SPDX-License-Identifier: Apache-2.0

package world

import (
	"math/rand/v2"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// cause is a failure at a portal.
type cause struct {
	name string
	// at lists the endpoints that the cause can strike. Each life draws one of them.
	at []endpoint
	// fault draws a fault of this cause.
	fault func(*rand.Rand) emulator.Fault
	// shown lists the reasons of conditions that name the cause. No condition shows that the provider waits for the rate limit.
	shown []string
}

type endpoint struct{ method, path string }

var (
	atNetworks = endpoint{"POST", "/networks"}
	atClusters = endpoint{"POST", "/kubernetes-clusters"}
	atScale    = endpoint{"POST", "/kubernetes-clusters/{cluster_id}/scale"}
	atUpgrade  = endpoint{"POST", "/kubernetes-clusters/{cluster_id}/upgrade"}
	atDeletion = endpoint{"DELETE", "/kubernetes-clusters/{cluster_id}"}
	atLogin    = endpoint{"POST", "/login"}
	atVerify   = endpoint{"POST", "/mfa/verify-otp"}

	atChanges = []endpoint{atNetworks, atClusters, atScale, atUpgrade, atDeletion}
	atIDs     = []endpoint{atScale, atUpgrade, atDeletion}
	atReads   = []endpoint{
		{"GET", "/vpcs"}, {"GET", "/kubernetes-versions"}, {"GET", "/kubernetes-clusters/{cluster_id}/config"}, {"GET", "/jobs/{job_id}"},
	}
	atAll     = append(append([]endpoint{}, atChanges...), atReads...)
	atEntries = []endpoint{atLogin, {"POST", "/mfa/send-otp"}, atVerify}
)

// code returns a refusal with a code of the specification and any status that the code may have.
func code(name string) func(*rand.Rand) emulator.Fault {
	return func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{Code: name, Status: oneOf(r, 0, 400, 403, 404, 409, 422, 500, 503), Message: "as injected"}
	}
}

// lost draws a lost answer, after which the client cannot know what the portal did.
func lost(r *rand.Rand) emulator.Fault {
	return oneOf(r,
		emulator.Fault{Cut: true}, emulator.Fault{Cut: true, After: true},
		emulator.Fault{Delay: 6 * time.Minute}, emulator.Fault{Delay: 6 * time.Minute, After: true},
		emulator.Fault{Status: 500}, emulator.Fault{Status: 500, After: true}, emulator.Fault{Status: 502, Body: emulator.BodyHTML},
		emulator.Fault{Status: 404, Body: emulator.BodyHTML}, emulator.Fault{Status: 403, Body: emulator.BodyHTML},
		emulator.Fault{Body: emulator.BodyTruncated}, emulator.Fault{Body: emulator.BodyHTML}, emulator.Fault{Body: emulator.BodyInterrupted},
		emulator.Fault{Body: emulator.BodyNull}, emulator.Fault{Body: emulator.BodySparse}, emulator.Fault{Status: 200, Body: emulator.BodyNull},
	)
}

var causes = []cause{
	{"busy", atIDs, code(emulator.CodeResourceBusy), []string{infrav1.PortalBusyReason}},
	{"quota", []endpoint{atClusters, atNetworks, atScale}, code(emulator.CodeQuotaExceeded), []string{infrav1.RefusedReason}},
	{"capacity", []endpoint{atClusters, atScale, atUpgrade}, code(emulator.CodeInsufficientCapacity), []string{infrav1.InsufficientCapacityReason}},
	{"invalid", atChanges, code(emulator.CodeInvalidParameter), []string{infrav1.RefusedReason}},
	{"not allowed", atChanges, code(emulator.CodeOperationNotAllowed), []string{infrav1.RefusedReason}},
	{"forbidden", atAll, func(*rand.Rand) emulator.Fault { return emulator.Fault{Status: 403} }, []string{infrav1.RefusedReason}},
	{"maintenance", append(append([]endpoint{}, atAll...), atEntries...), func(*rand.Rand) emulator.Fault {
		return emulator.Fault{Status: 503}
	}, []string{infrav1.PortalUnavailableReason}},
	{"lost answer to a change", atChanges, lost, []string{infrav1.OutcomeUnknownReason}},
	{"lost answer to a read", atReads, lost, []string{infrav1.PortalUnavailableReason}},
	{"slow", atAll, func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{Delay: between(r, time.Second, 29*time.Second), After: once(r, 2)}
	}, nil},
	{"token revoked", atAll, func(*rand.Rand) emulator.Fault { return emulator.Fault{RevokeToken: true} }, []string{infrav1.UnauthorizedReason}},
	{"rate limited", append(append([]endpoint{}, atAll...), atEntries...), func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{Status: 429, RetryAfter: between(r, 0, time.Minute)}
	}, nil},
	{"neighbours", []endpoint{{}}, func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{OthersPerMinute: oneOf(r, 5, 15, 30)}
	}, nil},
	{"login down", []endpoint{atLogin}, func(r *rand.Rand) emulator.Fault {
		return oneOf(r, emulator.Fault{Status: 500}, emulator.Fault{Cut: true}, emulator.Fault{Delay: 90 * time.Second},
			emulator.Fault{Code: emulator.CodeResourceBusy, Status: 409}, emulator.Fault{Body: emulator.BodyInterrupted})
	}, []string{infrav1.PortalUnavailableReason}},
	{"another server", []endpoint{atLogin}, func(r *rand.Rand) emulator.Fault {
		return oneOf(r, emulator.Fault{Body: emulator.BodyHTML}, emulator.Fault{Body: emulator.BodyEmpty},
			emulator.Fault{Status: 302, Code: "ELSEWHERE", Body: emulator.BodyHTML},
			emulator.Fault{Status: 404, Code: "NO_PAGE", Body: emulator.BodyHTML}, emulator.Fault{Status: 404, Code: "NO_PAGE"},
			emulator.Fault{Status: 405, Code: "NO_METHOD", Body: emulator.BodyEmpty})
	}, []string{infrav1.PortalUnavailableReason}},
	{"credentials", []endpoint{atLogin}, func(r *rand.Rand) emulator.Fault {
		return oneOf(r, emulator.Fault{Status: 401, Code: "INVALID_CREDENTIALS"}, emulator.Fault{Status: 401},
			emulator.Fault{Status: 400, Code: "WRONG_PASSWORD"},
			emulator.Fault{Status: 403, Code: "LOCKED"}, emulator.Fault{Status: 401, Body: emulator.BodyEmpty})
	}, []string{infrav1.UnauthorizedReason, infrav1.PortalUnavailableReason}},
	{"one-time code", []endpoint{atVerify}, func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{Status: oneOf(r, 400, 401, 403, 422), Code: oneOf(r, "INVALID_PARAMETER", "INVALID_OTP"), Field: "otp"}
	}, []string{infrav1.UnauthorizedReason}},
	{"job without room", []endpoint{atClusters, atScale, atUpgrade}, jobFails(emulator.CodeInsufficientCapacity),
		[]string{infrav1.InsufficientCapacityReason}},
	{"job beyond a quota", []endpoint{atClusters, atScale}, jobFails(emulator.CodeQuotaExceeded), []string{infrav1.RefusedReason}},
	{"job broken", atChanges, jobFails("PLATFORM_BROKEN"), []string{infrav1.InternalErrorReason}},
	{"job forgotten", []endpoint{atNetworks, atClusters, atScale, atUpgrade}, func(*rand.Rand) emulator.Fault {
		return emulator.Fault{Job: emulator.JobForgotten}
	}, []string{infrav1.RefusedReason}},
	{"job without id", []endpoint{atNetworks, atClusters}, func(*rand.Rand) emulator.Fault { return emulator.Fault{Job: emulator.JobWithoutID} }, nil},
	{"job leads to Alert", []endpoint{atScale, atUpgrade}, func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{
			Job:   oneOf(r, emulator.JobFails, emulator.JobFailsHalfway, emulator.JobFailsLate),
			Drain: time.Minute, Alert: true, LeaveCordoned: once(r, 2), JobCode: "PLATFORM_BROKEN", JobMessage: "as injected",
		}
	}, []string{infrav1.InternalErrorReason}},
	{"no deletion in Alert", []endpoint{atDeletion}, func(r *rand.Rand) emulator.Fault {
		f := code(emulator.CodeOperationNotAllowed)(r)
		f.State = emulator.ClusterAlert
		return f
	}, []string{infrav1.RefusedReason}},
	{"job never ends", atIDs, func(*rand.Rand) emulator.Fault { return emulator.Fault{Job: emulator.JobStuck} }, []string{infrav1.InternalErrorReason}},
	{"job slow", atChanges, func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{JobDelay: between(r, time.Minute, 40*time.Minute)}
	}, nil},
}

func jobFails(code string) func(*rand.Rand) emulator.Fault {
	return func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{Job: oneOf(r, emulator.JobFails, emulator.JobFailsLate), JobCode: code, JobMessage: "as injected"}
	}
}
