// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
)

// file is one binary of a release.
type file struct {
	name string // in bin/
	// path is the path of the download below the URL of its project. Pins use it as the file's name.
	path string
	etcd bool // from etcd's releases, not Kubernetes'
	// sums is the path of the file in which the release host publishes the checksum.
	sums string
	// member is the binary's path inside the download, if the download is an archive.
	member string
}

// files returns the binaries that make kube would compile and that their projects release.
func files(versions []string, etcd, arch string, kubectl bool) []file {
	archive := fmt.Sprintf("etcd-%s-linux-%s", etcd, arch)
	all := []file{{
		name: "etcd", etcd: true, path: path.Join(etcd, archive+".tar.gz"), sums: path.Join(etcd, "SHA256SUMS"), member: archive + "/etcd",
	}}
	add := func(version, program, name string) {
		p := path.Join(version, "bin/linux", arch, program)
		all = append(all, file{name: name, path: p, sums: p + ".sha256"})
	}
	for _, version := range versions {
		add(version, "kube-apiserver", "kube-apiserver-"+version)
	}
	newest := versions[len(versions)-1]
	add(newest, "kube-controller-manager", "kube-controller-manager")
	add(newest, "kube-scheduler", "kube-scheduler")
	if kubectl {
		add(newest, "kubectl", "kubectl")
	}
	return all
}

// kubernetesVersions returns the versions that the emulated portal offers, oldest first.
func kubernetesVersions(name string) ([]string, error) {
	text, err := os.ReadFile(name) //nolint:gosec // A file of the checkout.
	if err != nil {
		return nil, err
	}
	var versions []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "v") {
			versions = append(versions, line)
		}
	}
	if len(versions) == 0 {
		return nil, fmt.Errorf("%s names no version", name)
	}
	return versions, nil
}

var etcdModule = regexp.MustCompile(`(?m)^\s*go\.etcd\.io/etcd/server/v3 (v\S+)`)

// etcdVersion returns the version of etcd that make kube compiles.
func etcdVersion(name string) (string, error) {
	text, err := os.ReadFile(name) //nolint:gosec // A file of the checkout.
	if err != nil {
		return "", err
	}
	found := etcdModule.FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("%s requires no etcd server", name)
	}
	return string(found[1]), nil
}

// sum matches a SHA-256 in hexadecimal.
var sum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// readPins reads lines of a checksum and a path, in the format of sha256sum. Lines that begin with # are comments.
func readPins(name string) (map[string]string, error) {
	open, err := os.Open(name) //nolint:gosec // The user names the file.
	if err != nil {
		return nil, err
	}
	defer open.Close() //nolint:errcheck // It was only read.
	pins := map[string]string{}
	lines := bufio.NewScanner(open)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 2 || !sum.MatchString(fields[0]) {
			return nil, fmt.Errorf("%s:%d: %q is not a SHA-256 and a path", name, n, line)
		}
		pins[fields[1]] = fields[0]
	}
	return pins, lines.Err()
}
