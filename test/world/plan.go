// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// parts names what can be left out of the plan, the largest things first.
func (p plan) parts() (all []string) {
	all = []string{"crashes", "stale", "pauses", "portal", "network", "ties", "health"}
	for i := range p.Troubles {
		all = append(all, fmt.Sprint("t", i))
	}
	for i := range p.Steps {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// without returns the plan without some of its parts, which are separated by commas.
func without(p plan, parts string) plan {
	leaves := func(part string) bool { return slices.Contains(strings.Split(parts, ","), part) }
	if leaves("crashes") {
		p.Faults.Crashes, p.Faults.CrashWithin = 0, 0
	}
	if leaves("stale") {
		p.Faults.Stale, p.Faults.MostStale = 0, 0
	}
	if leaves("pauses") {
		p.Faults.Pauses, p.Faults.MostPause = 0, 0
	}
	if leaves("portal") {
		p.Portal = QuickPortal()
	}
	if leaves("network") {
		p.CIDR = ""
	}
	p.Ties, p.HealthCheck = p.Ties && !leaves("ties"), p.HealthCheck && !leaves("health")
	p.Troubles = keep(p.Troubles, func(i int) bool { return !leaves(fmt.Sprint("t", i)) })
	p.Steps = keep(p.Steps, func(i int) bool { return !leaves(fmt.Sprint(i)) })
	return p
}

func keep[T any](all []T, kept func(i int) bool) (some []T) {
	for i := range all {
		if kept(i) {
			some = append(some, all[i])
		}
	}
	return some
}

// String is the plan as a test.
func (p plan) String() string {
	portal := fmt.Sprintf("drawPortal(%d)", p.Seed)
	if reflect.DeepEqual(p.Portal, QuickPortal()) {
		portal = "QuickPortal()"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "func TestLife%d(t *testing.T) {\n\tliveOne(t, plan{\n\t\tSeed: %d, Portal: %s, CIDR: %q, Ties: %t, HealthCheck: %t, Faults: %s,\n",
		p.Seed, p.Seed, portal, p.CIDR, p.Ties, p.HealthCheck, literal(p.Faults))
	fmt.Fprintf(&b, "\t\tTroubles: []emulator.Fault{\n")
	for _, f := range p.Troubles {
		fmt.Fprintf(&b, "\t\t\t%s,\n", literal(f))
	}
	fmt.Fprintf(&b, "\t\t},\n\t\tSteps: []step{\n")
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "\t\t\t{%q, %d, %d, %d * time.Millisecond},\n", s.Act, s.N, s.M, s.Gap.Milliseconds())
	}
	b.WriteString("\t\t},\n\t})\n}")
	return b.String()
}

// literal writes a struct of simple fields as Go code, without the fields that are zero.
func literal(value any) string {
	v := reflect.ValueOf(value)
	var fields []string
	for i := range v.NumField() {
		f := v.Field(i)
		switch d, isTime := f.Interface().(time.Duration); {
		case f.IsZero():
		case isTime:
			fields = append(fields, fmt.Sprintf("%s: %d * time.Millisecond", v.Type().Field(i).Name, d.Milliseconds()))
		case f.Kind() == reflect.String:
			fields = append(fields, fmt.Sprintf("%s: %q", v.Type().Field(i).Name, f.String()))
		default:
			fields = append(fields, fmt.Sprintf("%s: %v", v.Type().Field(i).Name, f.Interface()))
		}
	}
	return fmt.Sprintf("%s{%s}", strings.TrimPrefix(v.Type().String(), "world."), strings.Join(fields, ", "))
}
