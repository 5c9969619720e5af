// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

func TestLists(t *testing.T) {
	vpcs := []emulator.VPC{{ID: "vpc-1", Name: "default"}, {ID: "vpc-2", Name: "prod\x1b[2Juction", CIDR: "10.0.0.0/8"}}
	at(t, emulator.Options{VPCs: vpcs}, func(t *testing.T, d *desk) {
		d.run("vpcs", "list").exits(exitOK).shows("ID      NAME            CIDR\n", "vpc-1   default         -\n", "vpc-2   prod[2Juction   10.0.0.0/8\n")
		type list struct {
			VPCs []struct{ ID, Name, CIDR string }
		}
		want := list{VPCs: []struct{ ID, Name, CIDR string }{{"vpc-1", "default", ""}}}
		if diff := cmp.Diff(want, decode[list](d.run("vpcs", "list", "--name", "default", "-o", "json").exits(exitOK))); diff != "" {
			t.Error(diff)
		}
		var got list
		if err := yaml.Unmarshal([]byte(d.run("vpcs", "list", "--name=default", "-oyaml").exits(exitOK).out), &got); err != nil || !cmp.Equal(got, want) {
			t.Errorf("YAML: %+v, %v", got, err)
		}
		if out := d.run("vpcs", "list", "--name", "none", "-o", "json").exits(exitOK).out; strings.Join(strings.Fields(out), "") != `{"vpcs":[]}` {
			t.Errorf("no VPCs: %s", out)
		}
		versions := decode[struct{ Versions []map[string]string }](d.run("versions", "-o", "json").exits(exitOK)).Versions
		if list := decode[struct{ Versions []map[string]string }](d.run("versions", "list", "-o", "json").exits(exitOK)).Versions; !cmp.Equal(list, versions) {
			t.Errorf("versions list: %v, versions: %v", list, versions)
		}
		if len(versions) != len(d.portal.Versions()) || versions[0]["id"] == "" || versions[0]["semanticVersion"] == "" || versions[0]["state"] == "" {
			t.Errorf("versions: %v", versions)
		}
	})
}

func TestInstances(t *testing.T) {
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		d.create("demo")
		d.run("instances", "list").exits(exitOK).shows("NAME", "demo-c-1", "Running   demo\n")
		list := decode[struct{ Instances []map[string]any }](d.run("instances", "list", "-o", "json").exits(exitOK)).Instances
		if len(list) != 3 {
			t.Fatalf("%d instances, want 3: %v", len(list), list)
		}
		id, _ := list[0]["id"].(string)
		if one := decode[map[string]any](d.run("instances", "get", id, "-o", "json").exits(exitOK)); !cmp.Equal(one, list[0]) {
			t.Errorf("get: %v, list: %v", one, list[0])
		}
		d.run("instances", "get", "i-none").exits(exitNotFound).says("another account")
	})
}

func TestClusterOfAnInstance(t *testing.T) {
	for name, want := range map[string]string{
		"demo-c-1": "demo", "team-a-w-x7k2p": "team-a", "demo-control-18c1f2a9b03": "demo", "demo-control-plane-0": "demo", "demo-node-18c1f2a9b03": "demo",
		"demo-worker-2": "demo", "a-node-b-node-2": "a-node-b", "web-1": "", "demo-c-": "", "-c-1": "", "control-1": "", "": "",
	} {
		if got := clusterOf(name); got != want {
			t.Errorf("%q is of cluster %q, want %q", name, got, want)
		}
	}
}

func TestFindClusters(t *testing.T) {
	at(t, emulator.Options{ListClusters: true}, func(t *testing.T, d *desk) {
		id := d.create("demo")
		d.create("demo-2")
		d.run("clusters", "find", "demo").exits(exitOK).shows("ID ", id+"   demo   Running\n")
		type list struct {
			KubernetesClusters []struct{ ID, Name string }
		}
		want := list{KubernetesClusters: []struct{ ID, Name string }{{id, "demo"}}}
		if diff := cmp.Diff(want, decode[list](d.run("clusters", "find", "demo", "-o", "json").exits(exitOK))); diff != "" {
			t.Error(diff)
		}
		d.run("clusters", "find", "dem").exits(exitNotFound).says("no cluster named dem")
	})
	at(t, emulator.Options{}, func(_ *testing.T, d *desk) {
		d.run("clusters", "find", "demo").exits(exitRefused).says("does not list clusters", "instances list")
	})
}

// TestRecordKeepsWhatThePortalSends: unknown fields and large numbers stay, ids are text.
func TestRecordKeepsWhatThePortalSends(t *testing.T) {
	var out screen
	a := &app{environment: environment{out: &out}, output: formatJSON}
	if err := a.printValue(record([]byte(`{"id":7,"big":12345678901234567890,"tags":["<a>"]}`), "7")); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(strings.Fields(out.String()), ""), `{"big":12345678901234567890,"id":"7","tags":["<a>"]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPickVersion(t *testing.T) {
	offered := []cloud.KubernetesVersion{
		{ID: "a", SemanticVersion: "1.35.6"}, {ID: "b", SemanticVersion: "v1.36.3+portal.1"},
		{ID: "c", SemanticVersion: "v1.34.9"}, {ID: "d", SemanticVersion: "1.34.9"},
	}
	for wanted, want := range map[string]struct {
		id   string
		code exitCode
	}{
		"v1.35.6": {id: "a"}, "1.35.6": {id: "a"}, "v1.36.3": {id: "b"}, " 1.36.3+other": {id: "b"},
		"v1.34.9": {code: exitUsage}, "v1.35": {code: exitNotFound}, "": {code: exitNotFound},
	} {
		id, err := pickVersion(offered, wanted)
		if code, _ := explain(err); id != want.id || (err != nil) != (want.code != 0) || err != nil && code != want.code {
			t.Errorf("%q: %q, %v, want %+v", wanted, id, err, want)
		}
	}
}

// TestUsage: mistakes on the command line cost no request.
func TestUsage(t *testing.T) {
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		for _, line := range []string{
			"bogus", "clusters", "clusters bogus", "vpcs bogus", "versions bogus", "clusters find", "volumes delete", "login now", "vpcs", "vpcs list -o xml", "vpcs list --no-such", "jobs get", "jobs get a b",
			"clusters create --name a", "clusters scale id", "clusters scale id --size many", "clusters scale id --size -1",
			"clusters upgrade id", "clusters upgrade id --version v1.36.3 --kubernetes-version-id x", "networks create",
			"networks create --cidr 10.1.0.0", "vpcs create", "clusters delete id", "volumes delete id", "mfa disable portal",
			"login --password " + canaryPassword,
		} {
			// The flag's value may be a secret, so it must not be printed either.
			d.run(strings.Fields(line)...).exits(exitUsage).says("What to do: ")
		}
		d.run("instances", "get", "..").exits(exitUsage).says("must be an id")
		if n := len(d.portal.RequestLog()); n != 1 { // "ready"
			t.Errorf("%d entries in the portal's request log: %v", n, d.portal.RequestLog())
		}
	})
}

// commands are all commands of the program.
func commands(from *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{from}
	for _, child := range from.Commands() {
		all = append(all, commands(child)...)
	}
	return all
}

// TestNoSecretFlags: no flag takes a secret, because every process of the machine can read flags.
func TestNoSecretFlags(t *testing.T) {
	secret := regexp.MustCompile("password|seed|token|otp|secret")
	for _, cmd := range commands((&app{}).root()) {
		for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) {
				if secret.MatchString(f.Name) && f.Name != "password-stdin" {
					t.Errorf("%s has a flag --%s", cmd.CommandPath(), f.Name)
				}
			})
		}
	}
}

// TestDocs: the documentation describes everything that scripts depend on, in the words of the help.
func TestDocs(t *testing.T) {
	content, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	var wanted []string
	for _, m := range exitMeanings {
		wanted = append(wanted, fmt.Sprintf("| %d | %s |", m.code, m.meaning))
	}
	for _, variable := range []string{urlVariable, emailVariable, caFileVariable, passwordVariable, seedVariable} {
		wanted = append(wanted, "`"+variable+"`")
	}
	for _, cmd := range commands((&app{}).root()) {
		if !cmd.HasSubCommands() && cmd.Runnable() {
			wanted = append(wanted, "`"+strings.TrimPrefix(cmd.CommandPath(), "portalctl "))
		}
	}
	for _, text := range wanted {
		if !strings.Contains(string(content), text) {
			t.Errorf("docs/reference.md lacks %s", text)
		}
	}
}

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
