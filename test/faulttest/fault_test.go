// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// refusals has the class of the client's error for each code that the specification lists, by group of methods. The code decides, with any
// status: "refusal" means 400 401 403 404 409 422 429 500 502 and 503.
//
//	read    VPCs, KubernetesVersions, FindClusters, Kubeconfig, Job, Instances, Instance
//	change  CreateVPC, CreateNetwork, CreateCluster, ScaleCluster, UpgradeCluster, DeleteCluster
//	quiet   DeleteVolume, DisableMFA: changes whose success needs no body
//	open    RequestPasswordReset, ResetPassword: the same, and without a token
//	login   POST /login, which the fault strikes when another method needs a token
//	verify  POST /mfa/verify-otp, likewise
//	send    POST /mfa/send-otp, likewise; its success needs no body
//
// FindClusters calls an endpoint that portals do not need to have. There the class is "unsupported" for every answer except a list and a
// refusal by the rate limit. A code about the token makes the client log in and try once more. These faults strike the second try as well.
const refusals = `
                                 read          change        quiet         open          login         verify        send
INVALID_PARAMETER refusal        invalid       invalid       invalid       invalid       unauthorized  unauthorized  unauthorized
INVALID_TOKEN refusal            unauthorized  unauthorized  unauthorized  unauthorized  unauthorized  unauthorized  unauthorized
INVALID_TOKEN 429                rate-limited  rate-limited  rate-limited  unauthorized  unauthorized  unauthorized  unauthorized
MFA_REQUIRED refusal             unauthorized  unauthorized  unauthorized  mfa-required  mfa-required  mfa-required  mfa-required
MFA_REQUIRED 429                 rate-limited  rate-limited  rate-limited  mfa-required  mfa-required  mfa-required  mfa-required
RESOURCE_NOT_FOUND refusal       not-found     not-found     not-found     not-found     not-portal    not-portal    not-portal
RESOURCE_BUSY refusal            busy          busy          busy          busy          unavailable   unavailable   unavailable
QUOTA_EXCEEDED refusal           quota         quota         quota         quota         unauthorized  unauthorized  unauthorized
INSUFFICIENT_CAPACITY refusal    capacity      capacity      capacity      capacity      unavailable   unavailable   unavailable
RATE_LIMITED refusal             rate-limited  rate-limited  rate-limited  rate-limited  rate-limited  rate-limited  rate-limited
OPERATION_NOT_ALLOWED refusal    not-allowed   not-allowed   not-allowed   not-allowed   unauthorized  unauthorized  unauthorized
`

// statuses has the classes for codes that the specification does not list. The status decides.
const statuses = `
                                 read          change        quiet         open          login         verify        send
302                              invalid       unknown       unknown       unknown       not-portal    not-portal    not-portal
400                              invalid       invalid       invalid       invalid       unauthorized  unauthorized  unauthorized
401                              unauthorized  unauthorized  unauthorized  unauthorized  unauthorized  unauthorized  unauthorized
403                              forbidden     forbidden     forbidden     forbidden     unauthorized  unauthorized  unauthorized
404                              not-found     not-found     not-found     not-found     not-portal    not-portal    not-portal
405                              unsupported   unsupported   unsupported   unsupported   not-portal    not-portal    not-portal
408                              unavailable   unavailable   unavailable   unavailable   unavailable   unavailable   unavailable
409                              not-allowed   not-allowed   not-allowed   not-allowed   unauthorized  unauthorized  unauthorized
422                              invalid       invalid       invalid       invalid       unauthorized  unauthorized  unauthorized
429                              rate-limited  rate-limited  rate-limited  rate-limited  rate-limited  rate-limited  rate-limited
500                              unavailable   unknown       unknown       unknown       unavailable   unavailable   unavailable
501                              unsupported   unknown       unknown       unknown       not-portal    not-portal    not-portal
502                              unavailable   unknown       unknown       unknown       unavailable   unavailable   unavailable
503                              unavailable   unavailable   unavailable   unavailable   unavailable   unavailable   unavailable
504                              unavailable   unknown       unknown       unknown       unavailable   unavailable   unavailable
`

// pages has the classes for answers without the documented body: a page, half of the JSON, nothing, or half of the JSON and the end of the
// connection. Another server on the way may have sent them, so a read finds the portal unavailable: a load balancer sends 404 while the
// portal restarts. The status decides for 405 and 429. Only 401 and 429 mean that a change was not carried out.
const pages = `
                                 read          change        quiet         open          login         verify        send
302                              unavailable   unknown       unknown       unknown       not-portal    not-portal    not-portal
400                              unavailable   unknown       unknown       unknown       not-portal    not-portal    not-portal
401                              unavailable   unavailable   unavailable   unavailable   unauthorized  unauthorized  unauthorized
403                              unavailable   unknown       unknown       unknown       not-portal    not-portal    not-portal
404                              unavailable   unknown       unknown       unknown       not-portal    not-portal    not-portal
405                              unsupported   unknown       unknown       unknown       not-portal    not-portal    not-portal
429                              rate-limited  rate-limited  rate-limited  rate-limited  rate-limited  rate-limited  rate-limited
500                              unavailable   unknown       unknown       unknown       unavailable   unavailable   unavailable
502                              unavailable   unknown       unknown       unknown       unavailable   unavailable   unavailable
503                              unavailable   unknown       unknown       unknown       unavailable   unavailable   unavailable
524                              unavailable   unknown       unknown       unknown       unavailable   unavailable   unavailable
`

// accidents has the classes for everything else that goes wrong. "once" strikes one call, which a second login may repair.
const accidents = `
                                 read          change        quiet         open          login         verify        send
late                             ok            ok            ok            ok            ok            ok            ok
too late, before the work        unavailable   unknown       unknown       unknown       unavailable   unavailable   unavailable
too late, after the work         unavailable   unknown       unknown       unknown       unavailable   unavailable   unavailable
cut before the work              unavailable   unknown       unknown       unknown       unavailable   unavailable   unavailable
cut after the work               unavailable   unknown       unknown       unknown       unavailable   unavailable   unavailable
500 after the work               unavailable   unknown       unknown       unknown       unavailable   unavailable   unavailable
success as a page                unavailable   unknown       ok            ok            not-portal    not-portal    ok
success, truncated               unavailable   unknown       ok            ok            not-portal    not-portal    ok
success, empty                   unavailable   unknown       ok            ok            not-portal    not-portal    ok
success, null                    unavailable   unknown       ok            ok            not-portal    not-portal    ok
success, sparse                  unavailable   unknown       ok            ok            not-portal    not-portal    ok
success, and nothing was done    unavailable   unknown       ok            ok            not-portal    not-portal    unauthorized
success, interrupted             unavailable   unknown       unknown       unknown       unavailable   unavailable   unavailable
token revoked once               ok            ok            ok            ok            ok            unauthorized  unauthorized
token revoked every time         unauthorized  unauthorized  unauthorized  ok            ok            unauthorized  unauthorized
token revoked after the work     ok            ok            ok            ok            ok            ok            unauthorized
clock ahead once                 ok            ok            ok            ok            ok            unauthorized  unauthorized
clock ahead every time           unauthorized  unauthorized  unauthorized  ok            ok            unauthorized  unauthorized
clock behind                     ok            ok            ok            ok            ok            unauthorized  ok
limit used up by others          rate-limited  rate-limited  rate-limited  rate-limited  rate-limited  rate-limited  rate-limited
job stuck                        ok            ok            ok            ok            ok            ok            ok
job stuck late                   ok            ok            ok            ok            ok            ok            ok
job forgotten                    ok            ok            ok            ok            ok            ok            ok
`

// accident maps each row of the table to its fault.
var accident = map[string]emulator.Fault{
	"late":                          {Delay: 29 * time.Second},
	"too late, before the work":     {Delay: 301 * time.Second},
	"too late, after the work":      {Delay: 301 * time.Second, After: true},
	"cut before the work":           {Cut: true},
	"cut after the work":            {Cut: true, After: true},
	"500 after the work":            {Status: 500, After: true},
	"success as a page":             {Body: emulator.BodyHTML},
	"success, truncated":            {Body: emulator.BodyTruncated},
	"success, empty":                {Body: emulator.BodyEmpty},
	"success, null":                 {Body: emulator.BodyNull},
	"success, sparse":               {Body: emulator.BodySparse},
	"success, and nothing was done": {Status: 200, Body: emulator.BodyNull},
	"success, interrupted":          {Body: emulator.BodyInterrupted},
	"token revoked once":            {RevokeToken: true, Count: 1},
	"token revoked every time":      {RevokeToken: true},
	"token revoked after the work":  {RevokeToken: true, After: true},
	"clock ahead once":              {ClockSkew: 9 * time.Hour, Count: 1},
	"clock ahead every time":        {ClockSkew: 9 * time.Hour},
	"clock behind":                  {ClockSkew: -9 * time.Hour},
	"limit used up by others":       {OthersPerMinute: 1_000_000},
	"job stuck":                     {Job: emulator.JobStuck},
	"job stuck late":                {Job: emulator.JobStuckLate},
	"job forgotten":                 {Job: emulator.JobForgotten},
}

// row is a row of a table: the faults, and the class for each group of methods.
type row struct {
	name   string
	faults []emulator.Fault // one at a time
	want   map[string]string
}

// rows parses a table, and turns the names of its rows into faults.
func rows(t *testing.T, table string, faults func(name string) []emulator.Fault) []row {
	t.Helper()
	lines := strings.Split(strings.Trim(table, "\n"), "\n")
	groups := strings.Fields(lines[0])
	var out []row
	for _, line := range lines[1:] {
		name, classes := strings.TrimSpace(line[:33]), strings.Fields(line[33:])
		r := row{name: name, faults: faults(name), want: map[string]string{}}
		if len(classes) != len(groups) || len(r.faults) == 0 {
			t.Fatalf("%s: %d faults, %d of %d classes", name, len(r.faults), len(classes), len(groups))
		}
		for i, group := range groups {
			r.want[group] = classes[i]
		}
		out = append(out, r)
	}
	return out
}

// allRows returns the rows of all tables.
func allRows(t *testing.T) []row {
	t.Helper()
	return slices.Concat(
		rows(t, refusals, refusal),
		rows(t, statuses, func(name string) []emulator.Fault {
			return []emulator.Fault{{Status: status(t, name), Code: "BRAND_NEW"}}
		}),
		rows(t, pages, func(name string) (faults []emulator.Fault) {
			for _, body := range []emulator.BodyFault{
				emulator.BodyHTML, emulator.BodyTruncated, emulator.BodyEmpty, emulator.BodyInterrupted, emulator.BodyNull, emulator.BodySparse,
			} {
				faults = append(faults, emulator.Fault{Status: status(t, name), Body: body})
			}
			return faults
		}),
		rows(t, accidents, func(name string) []emulator.Fault {
			if f, known := accident[name]; known {
				return []emulator.Fault{f}
			}
			return nil
		}),
	)
}

// refusal returns faults with a listed code, one for each status of the row.
func refusal(name string) (faults []emulator.Fault) {
	code, with, _ := strings.Cut(name, " ")
	paired := map[string][]int{"refusal": {400, 401, 403, 404, 409, 422, 429, 500, 502, 503}, "429": {429}}[with]
	for _, status := range paired {
		if with == "refusal" && status == 429 && (code == emulator.CodeInvalidToken || code == emulator.CodeMFARequired) {
			continue // has its own row, because the gate closes before the second try
		}
		faults = append(faults, emulator.Fault{Code: code, Status: status})
	}
	return faults
}

func status(t *testing.T, name string) int {
	t.Helper()
	var n int
	if _, err := fmt.Sscan(name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
