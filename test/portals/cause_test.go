// SPDX-License-Identifier: Apache-2.0

package portals

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// cause is a failure at a portal, with the conditions in which the provider may report it.
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
	networks = endpoint{"POST", "/networks"}
	clusters = endpoint{"POST", "/kubernetes-clusters"}
	scale    = endpoint{"POST", "/kubernetes-clusters/{cluster_id}/scale"}
	upgrade  = endpoint{"POST", "/kubernetes-clusters/{cluster_id}/upgrade"}
	deletion = endpoint{"DELETE", "/kubernetes-clusters/{cluster_id}"}
	login    = endpoint{"POST", "/login"}
	verify   = endpoint{"POST", "/mfa/verify-otp"}

	changes = []endpoint{networks, clusters, scale, upgrade, deletion}
	onIDs   = []endpoint{scale, upgrade, deletion}
	reads   = []endpoint{{"GET", "/vpcs"}, {"GET", "/kubernetes-versions"}, {"GET", "/kubernetes-clusters/{cluster_id}/config"}, {"GET", "/jobs/{job_id}"}}
	all     = append(append([]endpoint{}, changes...), reads...)
	entries = []endpoint{login, {"POST", "/mfa/send-otp"}, verify}
)

// code returns a refusal with a code of the specification and any status that the code may have.
func code(name string) func(*rand.Rand) emulator.Fault {
	return func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{Code: name, Status: one(r, 0, 400, 403, 404, 409, 422, 500, 503), Message: "as injected"}
	}
}

// lost draws a lost answer, after which the client cannot know what the portal did.
func lost(r *rand.Rand) emulator.Fault {
	return one(r,
		emulator.Fault{Cut: true}, emulator.Fault{Cut: true, After: true},
		emulator.Fault{Delay: 6 * time.Minute}, emulator.Fault{Delay: 6 * time.Minute, After: true},
		emulator.Fault{Status: 500}, emulator.Fault{Status: 500, After: true}, emulator.Fault{Status: 502, Body: emulator.BodyHTML},
		emulator.Fault{Status: 404, Body: emulator.BodyHTML}, emulator.Fault{Status: 403, Body: emulator.BodyHTML},
		emulator.Fault{Body: emulator.BodyTruncated}, emulator.Fault{Body: emulator.BodyHTML}, emulator.Fault{Body: emulator.BodyInterrupted},
		emulator.Fault{Body: emulator.BodyNull}, emulator.Fault{Body: emulator.BodySparse}, emulator.Fault{Status: 200, Body: emulator.BodyNull},
	)
}

var causes = []cause{
	{"busy", onIDs, code(emulator.CodeResourceBusy), []string{infrav1.PortalBusyReason}},
	{"quota", []endpoint{clusters, networks, scale}, code(emulator.CodeQuotaExceeded), []string{infrav1.RefusedReason}},
	{"capacity", []endpoint{clusters, scale, upgrade}, code(emulator.CodeInsufficientCapacity), []string{infrav1.InsufficientCapacityReason}},
	{"invalid", changes, code(emulator.CodeInvalidParameter), []string{infrav1.RefusedReason}},
	{"not allowed", changes, code(emulator.CodeOperationNotAllowed), []string{infrav1.RefusedReason}},
	{"forbidden", all, func(*rand.Rand) emulator.Fault { return emulator.Fault{Status: 403} }, []string{infrav1.RefusedReason}},
	{"maintenance", append(append([]endpoint{}, all...), entries...), func(*rand.Rand) emulator.Fault { return emulator.Fault{Status: 503} },
		[]string{infrav1.PortalUnavailableReason}},
	{"lost answer to a change", changes, lost, []string{infrav1.OutcomeUnknownReason}},
	{"lost answer to a read", reads, lost, []string{infrav1.PortalUnavailableReason}},
	{"slow", all, func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{Delay: between(r, time.Second, 29*time.Second), After: once(r, 2)}
	}, nil},
	{"token revoked", all, func(*rand.Rand) emulator.Fault { return emulator.Fault{RevokeToken: true} }, []string{infrav1.UnauthorizedReason}},
	{"rate limited", append(append([]endpoint{}, all...), entries...), func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{Status: 429, RetryAfter: between(r, 0, time.Minute)}
	}, nil},
	{"neighbours", []endpoint{{}}, func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{OthersPerMinute: one(r, 5, 15, 30)}
	}, nil},
	{"login down", []endpoint{login}, func(r *rand.Rand) emulator.Fault {
		return one(r, emulator.Fault{Status: 500}, emulator.Fault{Cut: true}, emulator.Fault{Delay: 90 * time.Second},
			emulator.Fault{Code: emulator.CodeResourceBusy, Status: 409}, emulator.Fault{Body: emulator.BodyInterrupted})
	}, []string{infrav1.PortalUnavailableReason}},
	{"another server", []endpoint{login}, func(r *rand.Rand) emulator.Fault {
		return one(r, emulator.Fault{Body: emulator.BodyHTML}, emulator.Fault{Body: emulator.BodyEmpty}, emulator.Fault{Status: 302, Code: "ELSEWHERE", Body: emulator.BodyHTML},
			emulator.Fault{Status: 404, Code: "NO_PAGE", Body: emulator.BodyHTML}, emulator.Fault{Status: 404, Code: "NO_PAGE"},
			emulator.Fault{Status: 405, Code: "NO_METHOD", Body: emulator.BodyEmpty})
	}, []string{infrav1.PortalUnavailableReason}},
	{"credentials", []endpoint{login}, func(r *rand.Rand) emulator.Fault {
		return one(r, emulator.Fault{Status: 401, Code: "INVALID_CREDENTIALS"}, emulator.Fault{Status: 401}, emulator.Fault{Status: 400, Code: "WRONG_PASSWORD"},
			emulator.Fault{Status: 403, Code: "LOCKED"}, emulator.Fault{Status: 401, Body: emulator.BodyEmpty})
	}, []string{infrav1.UnauthorizedReason, infrav1.PortalUnavailableReason}},
	{"one-time code", []endpoint{verify}, func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{Status: one(r, 400, 401, 403, 422), Code: one(r, "INVALID_PARAMETER", "INVALID_OTP"), Field: "otp"}
	}, []string{infrav1.UnauthorizedReason}},
	{"job without room", []endpoint{clusters, scale, upgrade}, jobFails(emulator.CodeInsufficientCapacity), []string{infrav1.InsufficientCapacityReason}},
	{"job beyond a quota", []endpoint{clusters, scale}, jobFails(emulator.CodeQuotaExceeded), []string{infrav1.RefusedReason}},
	{"job broken", changes, jobFails("PLATFORM_BROKEN"), []string{infrav1.InternalErrorReason}},
	{"job forgotten", []endpoint{networks, clusters, scale, upgrade}, func(*rand.Rand) emulator.Fault { return emulator.Fault{Job: emulator.JobForgotten} },
		[]string{infrav1.RefusedReason}},
	{"job without id", []endpoint{networks, clusters}, func(*rand.Rand) emulator.Fault { return emulator.Fault{Job: emulator.JobWithoutID} }, nil},
	{"job leads to Alert", []endpoint{scale, upgrade}, func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{
			Job:   one(r, emulator.JobFails, emulator.JobFailsHalfway, emulator.JobFailsLate),
			Drain: time.Minute, Alert: true, LeaveCordoned: once(r, 2), JobCode: "PLATFORM_BROKEN", JobMessage: "as injected",
		}
	}, []string{infrav1.InternalErrorReason}},
	{"no deletion in Alert", []endpoint{deletion}, func(r *rand.Rand) emulator.Fault {
		f := code(emulator.CodeOperationNotAllowed)(r)
		f.State = emulator.ClusterAlert
		return f
	}, []string{infrav1.RefusedReason}},
	{"job never ends", onIDs, func(*rand.Rand) emulator.Fault { return emulator.Fault{Job: emulator.JobStuck} },
		[]string{infrav1.InternalErrorReason}},
	{"job slow", changes, func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{JobDelay: between(r, time.Minute, 40*time.Minute)}
	}, nil},
}

func jobFails(code string) func(*rand.Rand) emulator.Fault {
	return func(r *rand.Rand) emulator.Fault {
		return emulator.Fault{Job: one(r, emulator.JobFails, emulator.JobFailsLate), JobCode: code, JobMessage: "as injected"}
	}
}

// inject sets a fault for the life, unless the endpoint has one. The fault's id names the cause.
func (c *cause) inject(r *rand.Rand, p *emulator.Portal, n int) (string, error) {
	f := c.fault(r)
	at := one(r, c.at...)
	taken := func(s emulator.FaultState) bool { return s.Fault.Method == at.method && s.Fault.Path == at.path }
	if slices.ContainsFunc(p.Faults(), taken) {
		return "", nil // two faults in one answer would combine to a third one
	}
	f.ID = fmt.Sprintf("%s#%d", c.name, n)
	f.Method, f.Path = at.method, at.path
	if f.OthersPerMinute == 0 {
		f.Nth, f.Count = one(r, 1, 1, 1, 2, 3), 1+r.IntN(3)
	}
	return fmt.Sprintf("%s at %s %s: %+v", f.ID, f.Method, f.Path, f), p.Inject(f)
}

// causeOf returns the cause that the id of a fault names.
func causeOf(fault string) *cause {
	name, _, _ := strings.Cut(fault, "#")
	for i := range causes {
		if causes[i].name == name {
			return &causes[i]
		}
	}
	return nil
}
