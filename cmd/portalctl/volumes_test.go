// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// someVolumes are three volumes that a cluster has left, and one that a cluster uses.
func someVolumes() emulator.Options {
	return emulator.Options{Volumes: []emulator.Volume{{ID: "v-1"}, {ID: "v-2"}, {ID: "v-3"}, {ID: "v-used", ClusterID: "cluster-1"}}}
}

// outcomes returns what a command with -o json says about each volume.
func (r *result) outcomes() map[string]string {
	r.t.Helper()
	all := map[string]string{}
	for _, v := range decode[struct {
		Volumes []struct{ ID, Outcome string }
	}](r).Volumes {
		all[v.ID] = v.Outcome
	}
	return all
}

func (r *result) has(want map[string]string) *result {
	r.t.Helper()
	if diff := cmp.Diff(want, r.outcomes()); diff != "" {
		r.t.Error(diff)
	}
	return r
}

// TestDeleteVolumes deletes the volumes that a cluster has left, from a list. Repeated, the command finds them gone, which is no failure.
func TestDeleteVolumes(t *testing.T) {
	for _, status := range []int{200, 202, 204} {
		opts := someVolumes()
		opts.Shapes.VolumeStatus = status
		at(t, opts, func(t *testing.T, d *desk) {
			d.stdin = "v-2\n\n  v-3 \nv-2\nv-none"
			d.run("volumes", "delete", "--yes", "v-1", "-", "-ojson").exits(exitOK).says("does not know 1 of 4 volumes").
				has(map[string]string{"v-1": volumeDeleted, "v-2": volumeDeleted, "v-3": volumeDeleted, "v-none": volumeGone})
			if left := d.portal.Volumes(); len(left) != 1 || left[0].ID != "v-used" {
				t.Errorf("left: %v", left)
			}
			d.run("volumes", "delete", "--yes", "v-1", "-", "-ojson").exits(exitOK).says("does not know 4 of 4 volumes").
				has(map[string]string{"v-1": volumeGone, "v-2": volumeGone, "v-3": volumeGone, "v-none": volumeGone})
			d.run("volumes", "delete", "--yes", "v-1").exits(exitOK).shows("v-1", "gone")
		})
	}
}

// TestDeleteVolumesAfterThePassword: ids follow the password on standard input. An empty list deletes nothing.
func TestDeleteVolumesAfterThePassword(t *testing.T) {
	at(t, someVolumes(), func(t *testing.T, d *desk) {
		d = d.with(passwordVariable, "")
		d.stdin = canaryPassword + "\nv-1\nv-2\n"
		d.run("volumes", "delete", "--yes", "--password-stdin", "-", "-ojson").exits(exitOK).
			has(map[string]string{"v-1": volumeDeleted, "v-2": volumeDeleted})
		d.stdin = canaryPassword + "\n"
		logins := d.calls("POST", "/login")
		d.run("volumes", "delete", "--yes", "--password-stdin", "-", "-ojson").exits(exitOK).says("no volume ids").has(map[string]string{})
		if n := d.calls("POST", "/login"); n != logins {
			t.Errorf("%d logins for an empty list", n-logins)
		}
	})
}

// TestDeleteSomeVolumes: what is about one volume does not keep the others, and the exit code is that of the first failure. What is about
// the portal ends the list.
func TestDeleteSomeVolumes(t *testing.T) {
	all := []string{"volumes", "delete", "--yes", "-ojson", "v-1", "v-2", "v-3", "v-used"}
	for name, test := range map[string]struct {
		fault emulator.Fault
		code  exitCode
		says  string
		want  map[string]string
	}{
		"one is attached": {emulator.Fault{}, exitRefused, "1 of 4 volumes were not deleted: delete of volume v-used", map[string]string{
			"v-1": volumeDeleted, "v-2": volumeDeleted, "v-3": volumeDeleted, "v-used": volumeFailed}},
		"one is busy": {emulator.Fault{Path: "/volumes/v-2", Code: "RESOURCE_BUSY"}, exitLater, "2 of 4", map[string]string{
			"v-1": volumeDeleted, "v-2": volumeFailed, "v-3": volumeDeleted, "v-used": volumeFailed}},
		"a lost answer": {emulator.Fault{Path: "/volumes/v-2", Cut: true, After: true}, exitUnknown, "run the same command again", map[string]string{
			"v-1": volumeDeleted, "v-2": volumeUnknown, "v-3": volumeUntouched, "v-used": volumeUntouched}},
		"the portal is down": {emulator.Fault{Path: "/volumes/v-2", Status: 503}, exitUnreachable, "3 of 4", map[string]string{
			"v-1": volumeDeleted, "v-2": volumeFailed, "v-3": volumeUntouched, "v-used": volumeUntouched}},
	} {
		t.Run(name, func(t *testing.T) {
			at(t, someVolumes(), func(_ *testing.T, d *desk) {
				if test.fault.Path != "" {
					d.inject(test.fault)
				}
				d.run(all...).exits(test.code).says(test.says).has(test.want)
				waitIdle()
				d.portal.ClearFaults()
				d.run(all...).exits(exitRefused).has(map[string]string{
					"v-1": volumeGone, "v-2": map[bool]string{true: volumeGone, false: volumeDeleted}[test.want["v-2"] == volumeDeleted || test.fault.After],
					"v-3": map[bool]string{true: volumeGone, false: volumeDeleted}[test.want["v-3"] == volumeDeleted], "v-used": volumeFailed})
			})
		})
	}
}

// TestInterruptDeletionOfVolumes: after Ctrl-C the program says how many volumes it has not deleted. Repeated, it deletes the rest.
func TestInterruptDeletionOfVolumes(t *testing.T) {
	opts, args := emulator.Options{}, []string{"volumes", "delete", "--yes", "-ojson"}
	for i := range 80 {
		id := fmt.Sprintf("v-%02d", i)
		opts.Volumes, args = append(opts.Volumes, emulator.Volume{ID: id}), append(args, id)
	}
	at(t, opts, func(t *testing.T, d *desk) {
		r := d.interrupt(2*time.Second, args...)
		left := len(d.portal.Volumes())
		if left == 0 || left == 80 {
			t.Fatalf("%d of 80 volumes are left", left)
		}
		r.exits(exitInterrupted).says(fmt.Sprintf("interrupted; %d of 80 volumes were not deleted", left), "run the same command again").saysNot("nothing was changed")
		d.run(args...).exits(exitOK)
	})
}

// TestDeleteVolumesByJobs: jobs that fail, and jobs that nobody waits for.
func TestDeleteVolumesByJobs(t *testing.T) {
	opts := someVolumes()
	opts.Shapes.VolumeStatus = 202
	at(t, opts, func(_ *testing.T, d *desk) {
		d.inject(emulator.Fault{Path: "/volumes/v-1", Job: emulator.JobFails, JobCode: "RESOURCE_BUSY"})
		d.run("volumes", "delete", "--yes", "-ojson", "v-1", "v-2").exits(exitJobFailed).says("RESOURCE_BUSY").
			has(map[string]string{"v-1": volumeFailed, "v-2": volumeDeleted})
		d.portal.ClearFaults()
		d.run("volumes", "delete", "--yes", "-ojson", "v-1", "v-3", "--no-wait").exits(exitOK).
			has(map[string]string{"v-1": volumeAsked, "v-3": volumeAsked})
		waitIdle()
		d.portal.AddVolume(emulator.Volume{ID: "v-4"})
		d.inject(emulator.Fault{Path: "/volumes/v-4", Job: emulator.JobStuck})
		d.run("volumes", "delete", "--yes", "-ojson", "v-1", "v-4", "--timeout", "20s").exits(exitStillRuns).
			has(map[string]string{"v-1": volumeGone, "v-4": volumeAsked})
		d.portal.ClearFaults()
		time.Sleep(time.Minute)
	})
}
