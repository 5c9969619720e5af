// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/profile"
)

// TestDoctor: a portal without problems gets every finding and no advice, and nothing is changed.
func TestDoctor(t *testing.T) {
	at(t, emulator.Options{ListClusters: true}, func(t *testing.T, d *desk) {
		d.create("demo")
		before := len(d.portal.Jobs())
		d.run("doctor").exits(exitOK).says("The provider can work with this portal").
			shows("ops@portal.example", "Administrator", "v1.34.9 (Enabled)", "default", "in use: zone-1", "300 requests per minute",
				"agrees with this machine's", "finds its cluster itself", "specification: list", "under its key", "with every answer")
		if len(d.portal.Jobs()) != before || len(d.portal.Violations()) != 0 {
			t.Errorf("the doctor changes things: %v", d.portal.Violations())
		}
		value := decode[diagnosis](d.run("doctor", "-o", "json").exits(exitOK))
		if len(value.Findings) < 9 || value.Gaps["lookup of clusters by name"] != "answered" || value.Portal != d.portal.URL() {
			t.Errorf("%+v", value)
		}
	})
}

// TestDoctorsAdvice: every problem is reported with what to do.
func TestDoctorsAdvice(t *testing.T) {
	at(t, emulator.Options{ClockSkew: 10 * time.Minute, VPCs: []emulator.VPC{}}, func(_ *testing.T, d *desk) {
		d.run("doctor").exits(exitOther).shows("10m0s ahead of this machine's").
			says("clock: correct this machine's clock", "VPCs: create one", "2 of 11 findings need attention")
	})
	at(t, emulator.Options{ClockSkew: -time.Hour}, func(_ *testing.T, d *desk) {
		d.run("doctor").exits(exitOther).shows("1h0m0s behind")
	})
	at(t, emulator.Options{Faults: []emulator.Fault{{Delay: 6 * time.Second}}}, func(_ *testing.T, d *desk) {
		d.run("doctor").exits(exitOther).shows("6s").says("answers: find out what is slow")
	})
	at(t, emulator.Options{Faults: []emulator.Fault{{Path: "/vpcs", Status: 403}}}, func(_ *testing.T, d *desk) {
		d.run("doctor").exits(exitOther).shows("GET /vpcs").says("VPCs: this user's role does not allow it")
	})
	at(t, mfaUser(), func(_ *testing.T, d *desk) {
		d.answers = []string{"000000"}
		d.run("doctor").exits(exitCredentials).says("one-time code")
		d.with(seedVariable, canarySeed).run("doctor").exits(exitOK).shows("on, the code was made from", "verify-otp token", "under a usual name")
	})
	at(t, emulator.Options{}, func(_ *testing.T, d *desk) {
		d.with(passwordVariable, "canary-wrong").run("doctor").exits(exitCredentials)
	})
}

// TestDoctorAtEveryProfile: the provider can work with every profile of the emulator.
func TestDoctorAtEveryProfile(t *testing.T) {
	for _, name := range profile.Names() {
		p, err := profile.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		opts := mfaUser()
		p.Apply(&opts)
		opts.Seed = 1
		at(t, opts, func(_ *testing.T, d *desk) {
			if p.BasePath != "" {
				d = d.with(urlVariable, "https://portal.example"+p.BasePath)
			}
			d.with(seedVariable, canarySeed).run("doctor").exits(exitOK)
		})
	}
}
