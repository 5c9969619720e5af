// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestShipped checks that each shipped profile has a description and gives a valid portal.
func TestShipped(t *testing.T) {
	want := []string{"busy", "cloudstack", "no-headers", "quirky", "slow", "small-tier", "strict"}
	if got := Names(); !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	for _, name := range want {
		p, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		var o emulator.Options
		p.Apply(&o)
		portal, err := emulator.New(o)
		if err != nil || p.Description == "" {
			t.Errorf("%s: %q, %v", name, p.Description, err)
			continue
		}
		portal.Close()
	}
}

// TestCloudstackHasAllTraits checks that no trait is left out.
func TestCloudstackHasAllTraits(t *testing.T) {
	p, err := Load("cloudstack")
	if err != nil {
		t.Fatal(err)
	}
	var o emulator.Options
	p.Apply(&o)
	traits := reflect.ValueOf(o.Traits)
	for i := range traits.NumField() {
		if traits.Field(i).IsZero() {
			t.Errorf("%s is not set", traits.Type().Field(i).Name)
		}
	}
}

// TestQuirkyIsQuirky checks that the profile fills every gap of the specification in another way than the defaults do. The exceptions are
// the headers that a 429 needs, and the documented list.
func TestQuirkyIsQuirky(t *testing.T) {
	p, err := Load("quirky")
	if err != nil {
		t.Fatal(err)
	}
	shapes := reflect.ValueOf(p.Shapes)
	for i := range shapes.NumField() {
		name := shapes.Type().Field(i).Name
		if shapes.Field(i).IsZero() && !slices.Contains([]string{"BareLists", "RetryAfterDate", "QuietLimits"}, name) {
			t.Errorf("%s has the default shape", name)
		}
	}
}

func load(t *testing.T, content string) (Profile, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "portal.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(file)
}

// TestFile checks that all fields of a profile are copied to the options.
func TestFile(t *testing.T) {
	p, err := load(t, `
description: everything
rateLimit: {perMinute: 60, burst: 5}
durations: {pending: 1s, create: 2m, scale: 3m, upgrade: 4m, delete: 5m, vpc: 6m, network: -1s}
versions: [{semanticVersion: v1.30.1, state: old, refused: true}]
vpcs: [production]
volumesPerCluster: 2
zones: [z]
serviceOfferings: [o]
sshKeyPairs: [k]
minWorkers: 1
maxWorkers: 9
maxClusters: 3
victimOrder: oldest
upgradeStyle: surge
controlMarks: taint
kubeconfigLifetime: 24h
providerIDs: true
reuseNodeNames: true
tokenLifetime: 1h
clockSkew: -2s
basePath: /api
listClusters: true
shapes: {createdID: deep}
traits: {upgradesRestart: true, upgradeLimit: 1h}
faults: [{id: f, status: 503, delay: 2s}]
`)
	if err != nil {
		t.Fatal(err)
	}
	got := emulator.Options{}
	p.Apply(&got)
	if got.Traits.UpgradeLimit != time.Hour || !got.Traits.UpgradesRestart || got.Durations.Network != -time.Second || got.Faults[0].Delay != 2*time.Second || got.Versions[0].SemanticVersion != "v1.30.1" {
		t.Errorf("%+v", got)
	}
	options := reflect.ValueOf(got)
	for i := range options.NumField() {
		name := options.Type().Field(i).Name
		apart := []string{"Users", "Volumes", "Workloads", "Hosts", "HTTP1", "Seed", "RequestLogTo", "RequestLogSize"}
		if options.Field(i).IsZero() != slices.Contains(apart, name) {
			t.Errorf("%s is %v", name, options.Field(i))
		}
	}
}

// TestMistakes checks that the error for an invalid profile names the file.
func TestMistakes(t *testing.T) {
	for _, content := range []string{"rateLimits: {}", "durations: {create: soon}", "faults: [{paths: x}]", "shapes: {created: deep}", "traits: {restart: true}", ":"} {
		if _, err := load(t, content); err == nil || !strings.Contains(err.Error(), "portal.yaml") {
			t.Errorf("%s: %v", content, err)
		}
	}
	if _, err := Load("strange"); err == nil || !strings.Contains(err.Error(), "quirky") {
		t.Errorf("the error does not list the profiles: %v", err)
	}
}
