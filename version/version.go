// SPDX-License-Identifier: Apache-2.0

// Package version reports the version and commit that a program of this project was built from.
//
// The Makefile passes version and commit to the linker. It passes no time and no path, so two builds of one commit with
// the same Go release are equal. A program that was built without the Makefile reports what Go recorded.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// The linker sets these variables. The Makefile names them.
var version, commit string

// Info describes a build.
type Info struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Get returns the build of this program. A value that is not known is "unknown", never empty.
func Get() Info {
	recorded, _ := debug.ReadBuildInfo()
	return get(version, commit, recorded)
}

func get(version, commit string, recorded *debug.BuildInfo) Info {
	if recorded != nil {
		version = cmp.Or(version, recorded.Main.Version)
		commit = cmp.Or(commit, revision(recorded))
	}
	return Info{
		Version: cmp.Or(version, "unknown"), Commit: cmp.Or(commit, "unknown"),
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// revision returns the commit that Go recorded, in the form that the Makefile gives it.
func revision(recorded *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, setting := range recorded.Settings {
		settings[setting.Key] = setting.Value
	}
	if settings["vcs.modified"] == "true" {
		return settings["vcs.revision"] + "-dirty"
	}
	return settings["vcs.revision"]
}

// String is what --version prints after the name of the program.
func (i Info) String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s)", i.Version, i.Commit, i.Go, i.Platform)
}
