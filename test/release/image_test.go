// SPDX-License-Identifier: Apache-2.0

package release

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// makes runs make with the arguments, with the folder programs first in the PATH. It returns the output of make.
func makes(t *testing.T, programs string, arguments ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "make", append([]string{"-C", root, "-s"}, arguments...)...)
	command.Env = append(environment(), "PATH="+programs+":"+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	return string(out), err
}

// TestUnknownMinor checks that make refuses a release that clusterctl would refuse.
func TestUnknownMinor(t *testing.T) {
	for version, says := range map[string]string{
		"v0.1.0": "", "v0.1.7-rc.1": "",
		"v0.2.0":  "metadata.yaml has no release series for VERSION=v0.2.0",
		"v0.10.0": "metadata.yaml has no release series for VERSION=v0.10.0",
		"0.1.0":   "VERSION=0.1.0 is not a version",
		"v0.1":    "VERSION=v0.1 is not a version",
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			to := t.TempDir()
			out, err := makes(t, "", "release-manifests", "VERSION="+version, "RELEASE="+to)
			files, globErr := filepath.Glob(filepath.Join(to, "*"))
			g.Expect(globErr).NotTo(HaveOccurred())
			if says == "" {
				g.Expect(err).NotTo(HaveOccurred(), out)
				g.Expect(files).NotTo(BeEmpty())
				return
			}
			g.Expect(err).To(HaveOccurred())
			g.Expect(out).To(ContainSubstring(says))
			g.Expect(files).To(BeEmpty())
		})
	}
}

// TestPrograms checks that every program that make builds reports its version, its commit and its Go version.
func TestPrograms(t *testing.T) {
	for _, program := range []string{"manager", "portalctl", "portal-conformance", "portal-emulator", "portal-sandbox"} {
		t.Run(program, func(t *testing.T) {
			g := NewWithT(t)
			out, err := exec.CommandContext(t.Context(), box.Binary(program), "--version").CombinedOutput()
			g.Expect(err).NotTo(HaveOccurred(), string(out))
			g.Expect(string(out)).To(MatchRegexp(`^%s version %s-dev \(commit [0-9a-f]{40}(-dirty)?, go1\.[0-9.]+, linux/[a-z0-9]+\)\n$`,
				program, regexp.QuoteMeta(releaseVersion)))
		})
	}
}

// licenceIn reports whether the folder or one of its subfolders has a licence text.
func licenceIn(t *testing.T, folder string) (found bool) {
	t.Helper()
	if _, err := os.Stat(folder); err != nil {
		return false
	}
	if err := filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !regexp.MustCompile(`(?i)^(licen[cs]e|copying)`).MatchString(entry.Name()) {
			return err
		}
		info, err := entry.Info()
		found = found || err == nil && info.Size() > 500
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

var (
	label  = regexp.MustCompile(`org\.opencontainers\.image\.[a-z]+="[^"]+"`)
	copied = regexp.MustCompile(`(?m)^COPY (\S+)`)
)

// TestImage checks that the build arguments carry the version and the commit, and that the files that the image copies exist. The test's
// docker records its arguments and builds nothing.
func TestImage(t *testing.T) {
	suite.Nightly(t)
	g := NewWithT(t)
	programs := t.TempDir()
	log := filepath.Join(programs, "arguments")
	g.Expect(os.WriteFile(filepath.Join(programs, "docker"), []byte("#!/bin/sh\necho \"$@\" >>"+log+"\n"), 0o755)).To(Succeed())
	out, err := makes(t, programs, "image", "VERSION="+releaseVersion, "PLATFORMS=linux/amd64", "IMG="+image)
	g.Expect(err).NotTo(HaveOccurred(), out)
	arguments, err := os.ReadFile(log)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(arguments)).To(MatchRegexp(`(?m)^build .*--build-arg VERSION=%s --build-arg REVISION=[0-9a-f]{40}(-dirty)? --tag %s `,
		regexp.QuoteMeta(releaseVersion), regexp.QuoteMeta(image)))

	dockerfile := source(t, "Dockerfile")
	g.Expect(label.FindAllString(dockerfile, -1)).To(ContainElements(
		`org.opencontainers.image.version="${VERSION}"`, `org.opencontainers.image.revision="${REVISION}"`,
		HavePrefix("org.opencontainers.image.source="), `org.opencontainers.image.licenses="Apache-2.0"`))
	files := copied.FindAllStringSubmatch(dockerfile, -1)
	g.Expect(files).To(HaveLen(2))
	for _, file := range files {
		path := strings.NewReplacer("${TARGETOS}", "linux", "${TARGETARCH}", "amd64").Replace(file[1])
		_, err := os.Stat(filepath.Join(root, path))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(source(t, ".dockerignore")).To(ContainSubstring("\n!"+strings.TrimSuffix(path, "linux-amd64")), "docker is not given %s", path)
	}
}
