// SPDX-License-Identifier: Apache-2.0

package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestFiles checks that make release has written every kind of file, that the checksums are those of all other files, and that the programs
// report the version of the release.
func TestFiles(t *testing.T) {
	suite.Nightly(t)
	g := NewWithT(t)
	platform := "linux-" + runtime.GOARCH
	entries, err := os.ReadDir(dir)
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	g.Expect(names).To(ContainElements(
		"infrastructure-components.yaml", "metadata.yaml", "cluster-template.yaml", "clusterclass-portal.yaml",
		"manager-image-"+platform+".tar", "manager-"+platform+".cdx.json", "portalctl-"+platform, "portal-emulator-"+platform, "portal-conformance-"+platform,
		"licenses.tar.gz", "notes.md", "SHA256SUMS"))

	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = dir
	out, err := check.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	g.Expect(strings.Count(string(out), ": OK\n")).To(Equal(len(names) - 1))

	for _, program := range []string{"portalctl", "portal-emulator", "portal-conformance"} {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, program+"-"+platform), "--version").CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), string(out))
		g.Expect(string(out)).To(HavePrefix(program + " version " + releaseVersion + " (commit "))
	}
}

// TestImageArchive checks that the image's archive has the manager, the licence texts and the configuration that the Dockerfile describes.
func TestImageArchive(t *testing.T) {
	suite.Nightly(t)
	g := NewWithT(t)
	archive := load(t, "manager-image-linux-"+runtime.GOARCH+".tar")
	g.Expect(archive.Name).To(Equal(image))
	g.Expect(archive.Architecture).To(Equal(runtime.GOARCH))
	out, err := exec.CommandContext(t.Context(), filepath.Join(archive.files, "manager"), "--version").CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	g.Expect(string(out)).To(HavePrefix("manager version " + releaseVersion + " (commit "))
	g.Expect(licenceIn(t, filepath.Join(archive.files, "licenses", "go"))).To(BeTrue())

	dockerfile := source(t, "Dockerfile")
	g.Expect(dockerfile).To(ContainSubstring("\nUSER " + archive.Config.User + "\n"))
	g.Expect(dockerfile).To(ContainSubstring("\nENTRYPOINT [\"" + archive.Config.Entrypoint[0] + "\"]\n"))
	labels := label.FindAllString(dockerfile, -1)
	g.Expect(archive.Config.Labels).To(HaveLen(len(labels)))
	g.Expect(archive.Config.Labels["org.opencontainers.image.revision"]).To(MatchRegexp(`^[0-9a-f]{40}(-dirty)?$`))
	for _, line := range labels {
		key, value, _ := strings.Cut(line, "=")
		value = strings.NewReplacer("${VERSION}", releaseVersion, "${REVISION}", archive.Config.Labels[key]).Replace(strings.Trim(value, `"`))
		g.Expect(archive.Config.Labels).To(HaveKeyWithValue(key, value))
	}
}
