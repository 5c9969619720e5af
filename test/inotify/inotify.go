// SPDX-License-Identifier: Apache-2.0

// Package inotify checks whether a node of kind can start on this machine. The node's systemd, containerd and kubelet watch files, and the
// kernel limits the inotify instances of each user. When they run out, kind reports only that a line of the node's log never came.
package inotify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// needed is how many instances must be free before a node starts: half of the usual limit of 128, within which a first node starts.
const needed = 64

// Advice says how to raise the limit, for errors that may have this cause.
const Advice = "Raise the limit: sudo sysctl fs.inotify.max_user_instances=512"

// Check returns an error if a node of kind would not find enough instances. It counts only processes whose files the current user may read.
// A node's processes belong to root, so only root sees all of them.
func Check() error { return check("/proc") }

func check(proc string) error {
	raw, err := os.ReadFile(filepath.Join(proc, "sys/fs/inotify/max_user_instances"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // not Linux
	}
	if err != nil {
		return err
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		return err
	}
	used := inUse(proc)
	if limit-used >= needed {
		return nil
	}
	return fmt.Errorf("inotify instances run out: %d of %d are in use, and a node of kind may need %d. %s", used, limit, needed, Advice)
}

// inUse counts open instances. It leaves out files of other users and processes that end during the count.
func inUse(proc string) (n int) {
	files, _ := filepath.Glob(filepath.Join(proc, "[0-9]*/fd/*")) // the pattern is well formed
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && target == "anon_inode:inotify" {
			n++
		}
	}
	return n
}
