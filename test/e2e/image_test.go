// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/workload"
)

// emulatorDockerfile builds an image with the emulator and the servers that run its clusters.
const emulatorDockerfile = `FROM scratch
COPY portal-emulator /
COPY kubernetes /kubernetes
USER 65532:65532
ENTRYPOINT ["/portal-emulator"]
`

// buildEmulator builds the emulator's image from the binaries that make has built.
func buildEmulator(ctx context.Context, tag string) error {
	files := map[string]string{"portal-emulator": "portal-emulator"} // by their name in bin/
	for _, name := range []string{"etcd", "kube-controller-manager", "kube-scheduler", "kwok", "kwok-stages.yaml"} {
		files[name] = "kubernetes/" + name
	}
	for _, version := range workload.Versions() {
		files["kube-apiserver-"+version] = "kubernetes/kube-apiserver-" + version
	}
	content, into := io.Pipe()
	packed := make(chan error, 1)
	go func() { err := pack(into, files); into.CloseWithError(err); packed <- err }()
	build := exec.CommandContext(ctx, "docker", "build", "--quiet", "--tag", tag, "-")
	build.Stdin = content
	out, err := build.CombinedOutput()
	if err = errors.Join(err, content.Close(), <-packed); err != nil {
		return fmt.Errorf("image of the emulator: %w: %s", err, out)
	}
	return nil
}

// pack writes the context of docker build.
func pack(out io.Writer, files map[string]string) error {
	archive := tar.NewWriter(out)
	header := &tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(emulatorDockerfile))}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	if _, err := io.WriteString(archive, emulatorDockerfile); err != nil {
		return err
	}
	for name, to := range files {
		if err := packFile(archive, filepath.Join(env.root, "bin", name), to); err != nil {
			return fmt.Errorf("run make build kube: %w", err)
		}
	}
	return archive.Close()
}

func packFile(archive *tar.Writer, path, to string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: to, Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}
