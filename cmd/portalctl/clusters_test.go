// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestLife runs the whole life of a cluster, from its VPC to its volume.
func TestLife(t *testing.T) {
	at(t, emulator.Options{VolumesPerCluster: 1, ListClusters: true}, func(t *testing.T, d *desk) {
		vpc := decode[job](d.run("vpcs", "create", "--name", "prod", "--cidr", "10.0.0.0/8", "-o", "json").exits(exitOK)).Result["vpc"].ID
		again := decode[job](d.run("vpcs", "create", "--name", "prod", "-o", "json").exits(exitOK).says("already"))
		if again.Result["vpc"].ID != vpc || d.calls("POST", "/vpcs") != 1 {
			t.Errorf("VPC %s, then %+v", vpc, again)
		}
		network := decode[job](d.run("networks", "create", "--cidr", "10.1.0.0/24", "-o", "json").exits(exitOK)).Result["network"].ID
		created := decode[job](d.run("clusters", "create", "--name", "demo", "--description", "d", "--zone-id", "zone-1",
			"--version", "1.35.6", "--service-offering-id", "medium", "--size", "2", "--control-nodes", "1", "--network-id", network,
			"--vpc-id", vpc, "--ssh-key-pair", "ops", "-o", "json").exits(exitOK).says("create of cluster demo", "running", "succeeded, 10s"))
		id := created.Result["kubernetesCluster"].ID
		got := d.portal.Clusters()[0]
		want := emulator.Cluster{ID: id, Name: "demo", Description: "d", ZoneID: "zone-1", ServiceOfferingID: "medium", Size: 2,
			ControlNodes: 1, NetworkID: network, VPCID: vpc, SSHKeyPair: "ops", State: emulator.ClusterRunning, Version: "v1.35.6"}
		got.Account, got.VersionID, got.Created, got.Nodes = "", "", time.Time{}, nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		d.run("clusters", "scale", id, "--size", "4").exits(exitOK).shows("succeeded").says("scale of cluster " + id + " to 4")
		d.run("clusters", "upgrade", id, "--version", "v1.36.3").exits(exitOK)
		if c := d.portal.Clusters()[0]; c.Size != 4 || c.Version != "v1.36.3" {
			t.Errorf("size %d, version %s", c.Size, c.Version)
		}
		volume := d.portal.Volumes()[0].ID
		d.run("volumes", "delete", volume, "--yes").exits(exitRefused).says("OPERATION_NOT_ALLOWED")
		d.run("clusters", "delete", id, "--yes").exits(exitOK)
		d.run("volumes", "delete", volume, "--yes").exits(exitOK).shows("deleted")
		if len(d.portal.Clusters())+len(d.portal.Volumes()) != 0 {
			t.Errorf("left: %v, %v", d.portal.Clusters(), d.portal.Volumes())
		}
		if v := d.portal.Violations(); len(v) > 0 {
			t.Errorf("the portal complains of %v", v)
		}
	})
}

func TestKubeconfig(t *testing.T) {
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		id, file := d.create("demo"), filepath.Join(t.TempDir(), "kubeconfig")
		d.may = true // a kubeconfig is a secret whose purpose is to be fetched
		text := d.run("clusters", "config", id).exits(exitOK).shows("kind: Config").out
		if in := decode[struct{ Kubeconfig string }](d.run("clusters", "config", id, "-o", "json").exits(exitOK)).Kubeconfig; in != text {
			t.Errorf("as a field: %q, as a file: %q", in, text)
		}
		d.run("clusters", "config", id, "--file", file).exits(exitOK)
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if written, err := os.ReadFile(file); err != nil || string(written) != text {
			t.Errorf("wrote %q, %v", written, err)
		}
		d.run("clusters", "config", id, "--file", file).exits(exitOther).says("exists")
		d.run("clusters", "config", "k8s-none").exits(exitNotFound)
	})
}

// TestPartOfAFile: a file that could not be written to its end does not stay, or the next try would refuse to overwrite it.
func TestPartOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	full := errors.New("no space left")
	err := writeNew(file, func(w io.Writer) error { _, _ = io.WriteString(w, "apiVersion"); return full })
	if _, left := os.Stat(file); !errors.Is(err, full) || !errors.Is(left, os.ErrNotExist) {
		t.Errorf("%v, and then %v", err, left)
	}
	if err := writeNew(file, func(io.Writer) error { return nil }); err != nil {
		t.Errorf("the next try: %v", err)
	}
}

// TestConfirmation: nothing is deleted without a yes to a question that names everything.
func TestConfirmation(t *testing.T) {
	at(t, someVolumes(), func(t *testing.T, d *desk) {
		id := d.create("demo")
		d.run("clusters", "delete", id).exits(exitUsage).says("--yes")
		for _, no := range []string{"no", "", "y"} {
			d.answers = []string{no, no}
			d.run("clusters", "delete", id).exits(exitOther).says("nothing was changed")
			d.run("volumes", "delete", "v-1", "v-2").exits(exitOther)
		}
		if len(d.portal.Clusters()) != 1 || len(d.portal.Volumes()) != 4 {
			t.Fatalf("left: %v, %v", d.portal.Clusters(), d.portal.Volumes())
		}
		d.answers = []string{"yes"}
		d.run("clusters", "delete", id).exits(exitOK)
		if asked := strings.Join(d.asked, ""); !strings.Contains(asked, id) || !strings.Contains(asked, "2 volumes (v-1, v-2)") {
			t.Errorf("asked %q", asked)
		}
	})
}

// TestVersionOfACluster: a version that is not offered creates nothing. An id saves the lookup.
func TestVersionOfACluster(t *testing.T) {
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		args := d.createArgs("demo")
		args[7] = "v1.20.0"
		d.run(args...).exits(exitNotFound).says("v1.34.9, v1.35.6, v1.36.3")
		lookups := d.calls("GET", "/kubernetes-versions")
		args[6], args[7] = "--kubernetes-version-id", d.portal.Versions()[0].ID
		d.run(args...).exits(exitOK).says("isolated network")
		if c := d.portal.Clusters(); len(c) != 1 || c[0].Version != "v1.34.9" || d.calls("GET", "/kubernetes-versions") != lookups {
			t.Errorf("clusters %v, after %d lookups", c, lookups)
		}
	})
}

// TestAmbiguousVPC: only a person can choose one of two VPCs of the same name.
func TestAmbiguousVPC(t *testing.T) {
	vpcs := []emulator.VPC{{ID: "vpc-1", Name: "prod"}, {ID: "vpc-2", Name: "prod"}}
	at(t, emulator.Options{VPCs: vpcs}, func(t *testing.T, d *desk) {
		d.run("vpcs", "create", "--name", "prod").exits(exitRefused).says("vpc-1, vpc-2")
		if d.calls("POST", "/vpcs") != 0 {
			t.Error("a third one was asked for")
		}
	})
}
