// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// blamed are the words of messages that name causes. No message may use the words of a cause that has not struck.
var blamed = []struct {
	words  string
	causes []string
}{
	{"email and password", []string{"credentials"}},
	{"totpSeed", []string{"one-time code"}},
	{"baseURL", nil},
	{"caBundle", nil},
	{"the right to do it", []string{"forbidden"}},
	{"just issued", []string{"token revoked"}},
	{"quota", []string{"quota", "job beyond a quota", "hardship"}},
}

// judged are the reasons that only faults of the portal explain.
var judged = []string{infrav1.UnauthorizedReason, infrav1.InsufficientCapacityReason, infrav1.PortalUnavailableReason, infrav1.RefusedReason}

// blame compares a condition with what has struck so far.
func (j *judge) blame(kind string, c metav1.Condition) {
	if strings.Contains(c.Message, password) || strings.Contains(c.Message, totpSeed) {
		j.wrong("secrets", "%s of the %s shows one", c.Type, kind)
	}
	if c.Status == metav1.ConditionTrue || !slices.Contains(judged, c.Reason) && !strings.Contains(c.Message, "portal") {
		return
	}
	struck := j.struck()
	if j.life.hard {
		struck = append(struck, &cause{name: "hardship"})
	}
	names := func(one *cause) bool { return slices.Contains(one.shown, c.Reason) }
	if slices.Contains(judged, c.Reason) && !slices.ContainsFunc(struck, names) && !j.excused(c.Reason) {
		j.wrong("blame", "%s of the %s is %s: %s, and what struck is %v", c.Type, kind, c.Reason, c.Message, struck)
	}
	for _, b := range blamed {
		is := func(one *cause) bool { return slices.Contains(b.causes, one.name) }
		if strings.Contains(c.Message, b.words) && !slices.ContainsFunc(struck, is) {
			j.wrong("blame", "%s of the %s blames %q: %s, and what struck is %v", c.Type, kind, b.words, c.Message, struck)
		}
	}
}

// excused reports whether the portal itself explains the reason, without a fault of a cause.
func (j *judge) excused(reason string) bool {
	traits := j.life.plan.Portal.Traits
	switch reason {
	case infrav1.PortalUnavailableReason:
		return j.life.wasAway || traits.UniqueNames
	case infrav1.RefusedReason: // rules of the portal that an act breaks, and clusters in Alert
		return j.life.hard || !reflect.ValueOf(traits).IsZero() ||
			slices.ContainsFunc(j.struck(), func(one *cause) bool { return strings.Contains(one.name, "job") })
	}
	return false
}

// struck returns the causes that have struck.
func (j *judge) struck() (all []*cause) {
	for _, f := range j.Portal.Faults() {
		if one := causeOf(f.Fault.ID); one != nil && f.Hits > 0 {
			all = append(all, one)
		}
	}
	if j.codeTwice {
		all = append(all, causeOf("one-time code"))
	}
	return all
}

// String is the name.
func (c *cause) String() string { return fmt.Sprintf("%q", c.name) }

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
