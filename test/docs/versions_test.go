// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"testing"
)

var (
	core        = regexp.MustCompile(`(?m)^\tsigs\.k8s\.io/cluster-api ((v\d+\.\d+)\.\d+)$`)
	coreToFetch = regexp.MustCompile(`--core cluster-api:(v[\d.]+)`)
)

// TestCoreVersion checks that the documentation names go.mod's version of Cluster API, which is the tested one.
func TestCoreVersion(t *testing.T) {
	required := core.FindStringSubmatch(source(t, "go.mod"))
	if required == nil {
		t.Fatal("go.mod requires no Cluster API")
	}
	version, minor := required[1], required[2]
	patches, count := regexp.MustCompile(regexp.QuoteMeta(minor)+`\.\d+`), 0
	for _, p := range pages(t) {
		for _, told := range patches.FindAllString(p.code+p.text, -1) {
			if count++; told != version {
				t.Errorf("%s names %s, but go.mod requires %s", p.path, told, version)
			}
		}
		for _, told := range coreToFetch.FindAllStringSubmatch(p.code, -1) {
			if told[1] != version {
				t.Errorf("%s tells users to install %s, but go.mod requires %s", p.path, told[1], version)
			}
		}
	}
	if count < 3 {
		t.Errorf("only %d places name %s", count, version)
	}
}
