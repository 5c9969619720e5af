// SPDX-License-Identifier: Apache-2.0

package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	action = regexp.MustCompile(`(?m)^.*\buses: *(\S+)(.*)$`)
	pinned = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)
	named  = regexp.MustCompile(`^ # v\d+\.\d+\.\d+$`)
)

// TestWorkflows checks what actionlint does not: actions are pinned by commit hash, with the version in a comment, and a workflow has only
// the rights that it names.
func TestWorkflows(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*"))
	if err != nil || len(paths) < 3 {
		t.Fatal(err, paths)
	}
	for _, path := range paths {
		content := read(t, path)
		uses := action.FindAllStringSubmatch(content, -1)
		for _, use := range uses {
			if !pinned.MatchString(use[1]) || !named.MatchString(use[2]) {
				t.Errorf("%s: %s%s: want the hash of a commit, and its version in a comment", path, use[1], use[2])
			}
		}
		if len(uses) == 0 {
			t.Errorf("%s: no action was found", path)
		}
		var workflow struct{ Permissions map[string]string }
		if err := yaml.Unmarshal([]byte(content), &workflow); err != nil {
			t.Fatal(path, err)
		}
		if workflow.Permissions == nil {
			t.Errorf("%s: has no permissions, so it gets the repository's default permissions", path)
		}
		for right, access := range workflow.Permissions {
			if access == "write" {
				t.Errorf("%s: all jobs may write %s: give that right to the job that needs it", path, right)
			}
		}
	}
}

// TestReleaseWorkflow checks that a release signs only what it has compiled, and that a candidate does not become the latest release.
func TestReleaseWorkflow(t *testing.T) {
	var workflow struct {
		Jobs map[string]struct {
			Env   map[string]string
			Steps []struct{ Run string }
		}
	}
	if err := yaml.Unmarshal([]byte(source(t, ".github/workflows/release.yaml")), &workflow); err != nil {
		t.Fatal(err)
	}
	job := workflow.Jobs["release"]
	if job.Env["PREBUILT"] != "0" {
		t.Errorf("the release takes programs from container images: %v", job.Env)
	}
	last := job.Steps[len(job.Steps)-1].Run
	for version, candidate := range map[string]bool{"v1.2.3": false, "v1.2.3-rc.1": true} {
		command := exec.CommandContext(t.Context(), "bash", "-e", "-c", "gh() { echo \"$@\"; }\n"+last)
		command.Env = append(os.Environ(), "VERSION="+version, "GITHUB_REPOSITORY=a/b")
		out, err := command.CombinedOutput()
		if err != nil || strings.Contains(string(out), "--prerelease") != candidate || !strings.Contains(string(out), "release create "+version+" ") {
			t.Errorf("%s: gh %s, %v", version, out, err)
		}
	}
}

// TestNotesOfCandidates checks that a release has the notes since the last release, also if a candidate has the same commit. A candidate has
// those since the candidate before. Only changes of what ships are notes.
func TestNotesOfCandidates(t *testing.T) {
	repository := t.TempDir()
	run := func(name string, arguments ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), name, arguments...)
		command.Dir = repository
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, arguments, err, out)
		}
		return string(out)
	}
	run("mkdir", "-p", "hack/tools", "test/stories")
	script, err := filepath.Abs(filepath.Join(root, "hack", "notes.sh"))
	if err != nil {
		t.Fatal(err)
	}
	run("cp", script, "hack/")
	run("git", "init", "-q")
	release := func(subject, tag string) {
		run("git", "-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "-q", "--allow-empty", "-m", subject)
		run("git", "tag", tag)
	}
	notes := func(tag, since string, changes ...string) {
		t.Helper()
		want := "# Changes in " + tag + " since " + since + "\n\n## cloud\n\n- " + strings.Join(changes, "\n- ") + "\n"
		if got := run("hack/notes.sh", tag); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	release("cloud: begin", "v1.0.0")
	release("docs: say more", "of-no-release")
	release("cloud: mend", "v1.1.0-rc.1")
	notes("v1.1.0-rc.1", "v1.0.0", "mend")
	release("cloud: mend more", "v1.1.0-rc.2")
	notes("v1.1.0-rc.2", "v1.1.0-rc.1", "mend more")
	run("git", "tag", "v1.1.0")
	notes("v1.1.0", "v1.0.0", "mend", "mend more")
}
