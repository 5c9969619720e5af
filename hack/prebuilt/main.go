// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

func main() {
	f := &fetcher{out: os.Stdout, client: &http.Client{CheckRedirect: onlyTLS}}
	flag.StringVar(&f.bin, "bin", "bin", "`directory` that receives the binaries")
	flag.StringVar(&f.kubernetes, "kubernetes", "https://dl.k8s.io", "`URL` of Kubernetes' releases")
	flag.StringVar(&f.etcd, "etcd", "https://github.com/etcd-io/etcd/releases/download", "`URL` of etcd's releases")
	checksums := flag.String("checksums", filepath.Join("hack", "kube", "checksums.txt"), "`file` with pinned checksums")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, f, *checksums); err != nil {
		fmt.Fprintln(os.Stderr, "\nhack/prebuilt:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, f *fetcher, checksums string) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("kube-apiserver and etcd are released for Linux only, not for %s. Run make kube without PREBUILT", runtime.GOOS)
	}
	for _, url := range []string{f.kubernetes, f.etcd} {
		if err := tlsOnly(url); err != nil {
			return err
		}
	}
	pins, err := readPins(checksums)
	if err != nil {
		return err
	}
	f.pins = pins
	versions, err := kubernetesVersions(filepath.Join("cloud", "emulator", "workload", "versions.txt"))
	if err != nil {
		return err
	}
	etcd, err := etcdVersion(filepath.Join("hack", "kube", "go.mod"))
	if err != nil {
		return err
	}
	_, noKubectl := exec.LookPath("kubectl")
	begin := time.Now()
	if err := f.fetch(ctx, files(versions, etcd, runtime.GOARCH, noKubectl != nil)); err != nil {
		return err
	}
	newest := filepath.Join(f.bin, "kube-apiserver")
	err = errors.Join(ignoreMissing(os.Remove(newest)), os.Symlink("kube-apiserver-"+versions[len(versions)-1], newest))
	_, _ = fmt.Fprintf(f.out, "released binaries: %.0f s\n", time.Since(begin).Seconds())
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
