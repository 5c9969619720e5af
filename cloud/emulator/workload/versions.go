// SPDX-License-Identifier: Apache-2.0

package workload

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed versions.txt
var versionsFile string

// Versions are the Kubernetes versions in which clusters can run, with a leading v, oldest first.
func Versions() []string {
	var versions []string
	for line := range strings.Lines(versionsFile) {
		if strings.HasPrefix(line, "v") {
			versions = append(versions, strings.TrimSpace(line))
		}
	}
	return versions
}

// serverBinary names the kube-apiserver of a version.
func serverBinary(version string) (string, error) {
	if !slices.Contains(Versions(), version) {
		return "", fmt.Errorf("no kube-apiserver of version %q; there are %s", version, strings.Join(Versions(), ", "))
	}
	return "kube-apiserver-" + version, nil
}
