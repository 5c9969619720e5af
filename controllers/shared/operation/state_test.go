// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
)

var (
	lostAt = metav1.NewTime(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	// known is everything that can become known about an operation.
	known = map[string]Event{
		"accepted":   {JobID: "job-1"},
		"lost":       {Unknown: "cut off", At: lostAt},
		"succeeded":  {Result: Succeeded, CreatedID: "x-1"},
		"failed":     {Result: Failed, NextName: "a-ccccc"},
		"costly":     {Result: Failed, NextName: "a-ccccc", Error: "no room", Costly: true},
		"refused":    {Result: Refused},
		"no workers": {Result: Refused, NoWorkers: true},
		"abandoned":  {Result: Abandoned},
	}
)

// TestAfter has every event of every operation, and what it changes in the record.
func TestAfter(t *testing.T) {
	workers := &infrav1.WorkerParameters{ServiceOfferingID: "small"}
	before := Record{UID: "me", Name: "a-bbbbb", Size: 3, Version: "v1.35.6", MinWorkers: 1}
	asked := Record{UID: "me", Name: "a-bbbbb", Size: 2, Version: "v1.36.3", MinWorkers: 1, Workers: workers}
	created := asked
	created.Portal = "https://p"
	change := func(r Record, changes ...func(*Record)) Record {
		for _, c := range changes {
			c(&r)
		}
		return r
	}
	size := func(n int, uncertain bool) func(*Record) {
		return func(r *Record) { r.Size, r.SizeUncertain = n, uncertain }
	}
	ended := func(r *Record) { r.UpgradeID = "up" }
	needsOne := func(r *Record) { r.MinWorkers = 1 }
	ops := map[string]struct {
		op   Operation
		want map[string]Record // by event. All others leave the record as it is
	}{
		"create": {Operation{Type: Create, Target: "a-bbbbb", Portal: "https://p", Record: &asked}, map[string]Record{
			"accepted":  created,
			"succeeded": change(created, func(r *Record) { r.ClusterID = "x-1" }),
			"failed":    {UID: "me", Size: SizeUnknown, MinWorkers: 1, AbandonedNames: []string{"a-bbbbb"}, Name: "a-ccccc"},
		}},
		"create under a name that a user chose": {Operation{Type: Create, Target: "mine", Portal: "https://p", Record: &asked}, map[string]Record{
			"accepted":  created,
			"succeeded": change(created, func(r *Record) { r.ClusterID = "x-1" }),
			"failed":    {UID: "me", Size: SizeUnknown, MinWorkers: 1, AbandonedNames: []string{"mine"}},
		}},
		"network": {Operation{Type: CreateNetwork, Target: "10.0.0.0/24"}, nil},
		"scale up": {Operation{Type: Scale, From: 3, Target: "5"}, map[string]Record{
			"accepted":  change(before, size(5, false), func(r *Record) { r.MinWorkers = 0 }),
			"succeeded": change(before, size(5, false), func(r *Record) { r.MinWorkers = 0 }),
			"lost":      change(before, size(5, true)),
			"failed":    change(before, size(5, true)),
			"abandoned": change(before, size(5, true)),
		}},
		"scale down": {Operation{Type: Scale, From: 3, Target: "1"}, map[string]Record{
			"accepted":  change(before, size(1, false)),
			"succeeded": change(before, size(1, false)),
			"refused":   change(before, func(r *Record) { r.MinWorkers = 0 }), // it was not for the number of workers
			"lost":      change(before, size(3, true)),
			"failed":    change(before, size(3, true)),
			"abandoned": change(before, size(3, true)),
		}},
		"upgrade": {Operation{ID: "up", Type: Upgrade, Target: "v1.36.3"}, map[string]Record{
			"succeeded": change(before, ended, func(r *Record) { r.Version = "v1.36.3" }),
			"failed":    change(before, ended),
			"abandoned": change(before, ended),
		}},
		"delete": {Operation{Type: Delete, Target: "x-1"}, nil},
	}
	for title, test := range ops {
		for name, e := range known {
			t.Run(fmt.Sprintf("%s/%s", title, name), func(t *testing.T) {
				op := test.op
				got := State{Record: before, Last: &op}.After(e)
				want, found := test.want[strings.ReplaceAll(name, "costly", "failed")]
				if !found {
					want = before
				}
				if e.Costly {
					want = want.Failed(&test.op, e.At)
					want.Failures[test.op.Type] = Failures{Request: test.op.request(), Count: 1, ID: test.op.ID, Error: "no room"}
				}
				if e.NoWorkers {
					needsOne(&want)
				}
				if diff := cmp.Diff(want, got.Record); diff != "" {
					t.Error(diff)
				}
				wantOp := test.op
				wantOp.JobID, wantOp.Unknown, wantOp.Time, wantOp.Result, wantOp.Error = e.JobID, e.Unknown, e.At, e.Result, e.Error
				if diff := cmp.Diff(&wantOp, got.Last); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(test.op, op); diff != "" {
					t.Errorf("the state before has changed: %s", diff)
				}
				if diff := cmp.Diff(got, got.After(e)); diff != "" {
					t.Errorf("a second time: %s", diff)
				}
				for other, later := range known {
					if diff := cmp.Diff(got, got.After(later)); e.Result != "" && diff != "" {
						t.Errorf("it has ended, and then %s: %s", other, diff)
					}
				}
			})
		}
	}
}

// TestAfterALostAnswer: the portal knows the job of a lost operation after all, or the resource is found.
func TestAfterALostAnswer(t *testing.T) {
	asked := Record{UID: "me", Size: 2, Workers: &infrav1.WorkerParameters{}}
	lost := State{Record: Record{UID: "me", Size: SizeUnknown}, Last: &Operation{Type: Create, Target: "a", Portal: "https://p", Record: &asked}}.After(known["lost"])
	want := asked
	want.Portal = "https://p"
	if after := lost.After(Event{JobID: "job-1"}); after.Last.Lost() || after.Last.JobID != "job-1" || !cmp.Equal(after.Record, want) {
		t.Errorf("%+v, %+v", after.Record, after.Last)
	}
	want.ClusterID = "x-1"
	if found := lost.After(known["succeeded"]); found.Last.Result != Succeeded || !cmp.Equal(found.Record, want) {
		t.Errorf("%+v, %+v", found.Record, found.Last)
	}
}

// TestCreated checks what the end of a creation changes in the spec.
func TestCreated(t *testing.T) {
	type spec struct{ id, name string }
	for title, test := range map[string]struct {
		recorded, inSpec string // names
		event            string
		want             spec
	}{
		"failed":                          {"a-bbbbb", "a-bbbbb", "failed", spec{"", "a-ccccc"}},
		"failed, as the user chose":       {"", "a-bbbbb", "failed", spec{"", "a-bbbbb"}},
		"failed, the user has renamed it": {"a-bbbbb", "mine", "failed", spec{"", "mine"}},
		"abandoned":                       {"a-bbbbb", "a-bbbbb", "abandoned", spec{"", "a-bbbbb"}},
	} {
		t.Run(title, func(t *testing.T) {
			cp := &infrav1.PortalControlPlane{}
			cp.Spec.ClusterName = test.inSpec
			e := known[test.event]
			state := State{Record: Record{Name: test.recorded}, Last: &Operation{Type: Create, Target: "a-bbbbb"}}.After(e)
			for range 2 { // it is repeated until it is stored
				e.put(cp, state)
			}
			if got := (spec{cp.Spec.ClusterID, cp.Spec.ClusterName}); got != test.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestInsistsOnWorkers: a refusal of no workers for its size, or without a reason, means that the portal wants one.
func TestInsistsOnWorkers(t *testing.T) {
	none, one := &Operation{Type: Scale, Target: "0"}, &Operation{Type: Scale, Target: "1"}
	field := func(code cloud.Code, field string) error { return &cloud.Error{Code: code, Status: 400, Field: field} }
	for title, test := range map[string]struct {
		op    *Operation
		cause error
		want  bool
	}{
		"its size":         {none, field(cloud.CodeInvalidParameter, "size"), true},
		"no field":         {none, field(cloud.CodeInvalidParameter, ""), true},
		"another field":    {none, field(cloud.CodeInvalidParameter, "zoneId"), false},
		"its state":        {none, field(cloud.CodeOperationNotAllowed, ""), false},
		"the quota":        {none, field(cloud.CodeQuotaExceeded, ""), false},
		"one worker":       {one, field(cloud.CodeInvalidParameter, "size"), false},
		"creation without": {&Operation{Type: Create, Record: &Record{}}, field(cloud.CodeInvalidParameter, "size"), true},
		"not an answer":    {none, errors.New("cut off"), false},
	} {
		if got := insistsOnWorkers(test.op, test.cause); got != test.want {
			t.Errorf("%s: %v", title, got)
		}
	}
}
