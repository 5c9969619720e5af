// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestCompletion: the Tab key offers what the portal has, with a description.
func TestCompletion(t *testing.T) {
	at(t, emulator.Options{VPCs: []emulator.VPC{{ID: "vpc-1", Name: "default"}}}, func(t *testing.T, d *desk) {
		d.create("demo")
		cluster, instance, version := d.portal.Clusters()[0], d.portal.Instances()[0], d.portal.Versions()[0]
		for line, want := range map[string]string{
			"clusters create --version":               version.SemanticVersion + "\t",
			"clusters upgrade x --version":            version.SemanticVersion + "\t",
			"clusters create --kubernetes-version-id": version.ID + "\t" + version.SemanticVersion + "\n",
			"clusters create --zone-id":               "zone-1\n",
			"clusters create --vpc-id":                "vpc-1\tdefault\n",
			"clusters create --network-id":            cluster.NetworkID + "\n",
			"clusters scale":                          cluster.ID + "\n",
			"clusters upgrade":                        cluster.ID + "\n",
			"clusters delete":                         cluster.ID + "\n",
			"clusters config":                         cluster.ID + "\n",
			"instances get":                           instance.ID + "\t" + instance.Name + "\n",
			"vpcs list -o":                            "yaml\n",
		} {
			d.run(append(append([]string{"__complete"}, strings.Fields(line)...), "")...).exits(exitOK).shows(want, ":4\n")
		}
		if r := d.run("__complete", "clusters", "scale", cluster.ID, "").exits(exitOK); strings.Contains(r.out, cluster.ID) {
			t.Errorf("a second argument is offered: %s", r.out)
		}
	})
}

// TestCompletionIsQuiet: a shell is not kept waiting, asks no question and offers nothing if the portal cannot be asked.
func TestCompletionIsQuiet(t *testing.T) {
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		d.answers = []string{}
		for name, other := range map[string]*desk{
			"no portal":    d.with(urlVariable, ""),
			"no password":  d.with(passwordVariable, ""),
			"wrong":        d.with(passwordVariable, "canary-wrong"),
			"a seed":       d.with(seedVariable, canarySeed),
			"slow answers": d,
		} {
			if other == d {
				d.inject(emulator.Fault{Path: "/kubernetes-versions", Delay: time.Minute})
			}
			r := other.run("__complete", "clusters", "create", "--version", "").exits(exitOK)
			if r.out != ":4\n" || len(other.asked) > 0 || r.took > completionTimeout {
				t.Errorf("%s: offered %q after %s, asked %q", name, r.out, r.took, other.asked)
			}
		}
		if n := d.calls("POST", "/login"); n != 2 {
			t.Errorf("%d logins, want none without a password or with a seed", n)
		}
		waitIdle()
	})
}
