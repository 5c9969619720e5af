// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bufio"
	"context"
	"debug/buildinfo"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// TestBundle unpacks the sandbox's bundle and starts it in another, empty folder, without any other program in the PATH. The page answers, and the
// licence text of each module of each program is there.
func TestBundle(t *testing.T) {
	suite.Nightly(t)
	g := NewWithT(t)
	folder := t.TempDir()
	out, err := makes(t, "", "bundle", "VERSION="+releaseVersion, "RELEASE="+folder)
	g.Expect(err).NotTo(HaveOccurred(), out)
	name := "portal-sandbox-linux-" + runtime.GOARCH
	g.Expect(exec.CommandContext(t.Context(), "tar", "-xzf", filepath.Join(folder, name+".tar.gz"), "-C", folder).Run()).To(Succeed())
	bundle := filepath.Join(folder, name)

	g.Expect(get(t, start(t, filepath.Join(bundle, "portal-sandbox")))).To(ContainSubstring("<html"))
	g.Expect(get(t, start(t, filepath.Join(bundle, "portal-player")))).To(ContainSubstring("<html"))

	programs, err := filepath.Glob(filepath.Join(bundle, "bin", "*"))
	g.Expect(err).NotTo(HaveOccurred())
	read := 0
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			continue // a manifest
		}
		read++
		for _, module := range info.Deps {
			g.Expect(licenceIn(t, filepath.Join(bundle, "licenses", module.Path))).To(BeTrue(), "%s of %s has no licence text", module.Path, program)
		}
	}
	g.Expect(read).To(BeNumerically(">=", 15))
}

// start runs a program of the bundle until the test ends, and returns the address of its page.
func start(t *testing.T, program string) string {
	t.Helper()
	g := NewWithT(t)
	sandbox := exec.CommandContext(context.WithoutCancel(t.Context()), program) // The cleanup ends it.
	sandbox.Dir, sandbox.Env = t.TempDir(), []string{"PATH=" + t.TempDir(), "HOME=" + t.TempDir()}
	printed, err := sandbox.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	sandbox.Stderr = os.Stderr
	g.Expect(sandbox.Start()).To(Succeed())
	page := ""
	for lines := bufio.NewScanner(printed); page == "" && lines.Scan(); {
		if found := regexp.MustCompile(`(http://127\S+)`).FindStringSubmatch(lines.Text()); found != nil {
			page = found[1]
		}
		t.Log(lines.Text())
	}
	t.Cleanup(func() {
		g.Expect(sandbox.Process.Signal(os.Interrupt)).To(Succeed())
		_, _ = io.Copy(io.Discard, printed)
		g.Expect(sandbox.Wait()).To(Succeed())
	})
	g.Expect(page).NotTo(BeEmpty())
	return page
}

func get(t *testing.T, url string) string {
	t.Helper()
	g := NewWithT(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	g.Expect(err).NotTo(HaveOccurred())
	answer, err := http.DefaultClient.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer answer.Body.Close()
	g.Expect(answer.StatusCode).To(Equal(http.StatusOK))
	content, err := io.ReadAll(answer.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return string(content)
}
