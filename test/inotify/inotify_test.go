// SPDX-License-Identifier: Apache-2.0

package inotify

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine writes the files in which the kernel shows the limit and the instances of a machine.
func machine(t *testing.T, limit string, instances int) string {
	t.Helper()
	proc := t.TempDir()
	for name, content := range map[string]string{"sys/fs/inotify/max_user_instances": limit, "self/fd/none": "", "17/fd/none": ""} {
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range instances + 10 {
		target := "anon_inode:inotify"
		if i < 10 {
			target = "anon_inode:[eventpoll]"
		}
		if err := os.Symlink(target, filepath.Join(proc, "17/fd", fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	return proc
}

// TestCheck checks that the error names the resource, its limit and the command that raises the limit.
func TestCheck(t *testing.T) {
	tests := map[string]struct {
		limit     string
		instances int
		says      string // empty: the instances suffice
	}{
		"enough":      {"128\n", 64, ""},
		"one too few": {"128\n", 65, "65 of 128 are in use"},
		"a low limit": {"32\n", 0, "0 of 32 are in use"},
		"used up":     {"128\n", 128, "128 of 128 are in use"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			err := check(machine(t, test.limit, test.instances))
			switch {
			case (err == nil) != (test.says == ""):
				t.Error(err)
			case err != nil && (!strings.Contains(err.Error(), test.says) || !strings.HasSuffix(err.Error(), "sudo sysctl fs.inotify.max_user_instances=512")):
				t.Error(err)
			}
		})
	}
	if err := check(t.TempDir()); err != nil {
		t.Errorf("on a machine without inotify: %v", err)
	}
}
