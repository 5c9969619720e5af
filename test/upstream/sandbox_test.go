// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package upstream

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var (
	exported = regexp.MustCompile(`(?m)^  export ([A-Z_]+)=([^$\s]+)$`)
	offered  = regexp.MustCompile(`--kubernetes-version (v\S+)`)
	newer    = regexp.MustCompile(`"version": "(v[^"]+)"`)
)

// sandboxes counts the running sandboxes. The process waits for them before it ends.
var sandboxes sync.WaitGroup

// endOnSignal ends this process when the run is interrupted. Ginkgo would wait 30 s for its spec, and then delete the spec's Cluster. The
// sandbox receives the signal too, so the Cluster disappears with it.
func endOnSignal() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		sandboxes.Wait()
		os.Exit(1)
	}()
}

// startSandbox runs bin/portal-sandbox as a user would until the suite ends, and returns the values that it prints for its user. Its logs
// stay in the artifacts.
func startSandbox(artifacts string) (kubeconfig string, variables map[string]string) {
	binary, err := filepath.Abs(filepath.Join(root, "bin", "portal-sandbox"))
	Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(binary, "--dir", filepath.Join(artifacts, "sandbox"), "--page-listen=", "--job-duration=2s", "--seed=1")
	log, err := os.Create(filepath.Join(artifacts, "sandbox.log")) // not os.Stderr, which Ginkgo captures until it is closed
	Expect(err).NotTo(HaveOccurred())
	cmd.Dir, cmd.Stderr = root, log
	out, err := cmd.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(cmd.Start()).To(Succeed(), "make build builds bin/portal-sandbox")
	text := readUntil(out, "Ctrl-C ends everything")
	ended := make(chan error, 1)
	sandboxes.Go(func() {
		_, _ = io.Copy(io.Discard, out)
		ended <- cmd.Wait()
	})
	DeferCleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		Eventually(ended, 2*time.Minute).Should(Receive(), "the sandbox must end")
	})
	variables = map[string]string{"CLUSTERCTL_DISABLE_VERSIONCHECK": "true"}
	for _, export := range exported.FindAllStringSubmatch(text, -1) {
		variables[export[1]] = export[2]
	}
	from, to := offered.FindStringSubmatch(text), newer.FindStringSubmatch(text)
	Expect(from).NotTo(BeNil(), "the sandbox did not start, or no longer prints how to use it, see %s: %s", log.Name(), text)
	Expect(to).NotTo(BeNil(), "the sandbox no longer prints how to upgrade: %s", text)
	variables["KUBERNETES_VERSION"], variables["KUBERNETES_VERSION_UPGRADE_TO"] = from[1], to[1]
	return variables["KUBECONFIG"], variables
}

// readUntil returns the text up to the line that contains mark, or up to the end.
func readUntil(from io.Reader, mark string) string {
	var text strings.Builder
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		text.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), mark) {
			break
		}
	}
	return text.String()
}
