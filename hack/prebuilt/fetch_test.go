// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// host replaces the release hosts and serves the given files over TLS.
type host struct {
	*httptest.Server
	serves map[string][]byte // by path
	cut    string            // path whose answer is cut off
	asked  []string
}

func newHost(t *testing.T, serves map[string][]byte) *host {
	h := &host{serves: serves}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.asked = append(h.asked, r.URL.Path)
		content, found := h.serves[r.URL.Path]
		if !found {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		if r.URL.Path == h.cut {
			_, _ = w.Write(content[:len(content)/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(content)
	}))
	t.Cleanup(h.Close)
	return h
}

// fetcher returns a fetcher of the host's files into an empty bin/.
func (h *host) fetcher(t *testing.T) (*fetcher, *strings.Builder) {
	out := &strings.Builder{}
	return &fetcher{
		bin: filepath.Join(t.TempDir(), "bin"), kubernetes: h.URL, etcd: h.URL + "/etcd", client: h.Client(), out: out, pins: map[string]string{},
	}, out
}

const (
	apiserver    = "v1.2.3/bin/linux/amd64/kube-apiserver"
	etcdArchive  = "v3.4.5/etcd-v3.4.5-linux-amd64.tar.gz"
	theAPIServer = "this is kube-apiserver"
	theEtcd      = "this is etcd"
)

// release returns the files of a Kubernetes and an etcd release, with their checksums.
func release(t *testing.T) map[string][]byte {
	archive := pack(t, "etcd-v3.4.5-linux-amd64/etcdctl", "not this", "etcd-v3.4.5-linux-amd64/etcd", theEtcd)
	serves := map[string][]byte{
		"/etcd/" + etcdArchive:    archive,
		"/etcd/v3.4.5/SHA256SUMS": []byte(hashed([]byte("x")) + "  etcd-v3.4.5-linux-arm64.tar.gz\n" + hashed(archive) + "  etcd-v3.4.5-linux-amd64.tar.gz\n"),
	}
	for _, program := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"} {
		path := "/v1.2.3/bin/linux/amd64/" + program
		serves[path] = []byte("this is " + program)
		serves[path+".sha256"] = []byte(hashed(serves[path]))
	}
	return serves
}

func pack(t *testing.T, namesAndContents ...string) []byte {
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	writer := tar.NewWriter(zipped)
	for pair := range slices.Chunk(namesAndContents, 2) {
		if err := writer.WriteHeader(&tar.Header{Name: pair[0], Mode: 0o755, Size: int64(len(pair[1]))}); err != nil {
			t.Fatal(err)
		}
		_, _ = writer.Write([]byte(pair[1]))
	}
	_, _ = writer.Close(), zipped.Close()
	return archive.Bytes()
}

func hashed(content []byte) string {
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}

func wanted() []file { return files([]string{"v1.2.3"}, "v3.4.5", "amd64", true) }

// left returns the names of the files in bin/.
func left(t *testing.T, f *fetcher) []string {
	entries, err := os.ReadDir(f.bin)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestFetch checks that fetch installs all files as executables, does not fetch them again, and lists those without a pin.
func TestFetch(t *testing.T) {
	h := newHost(t, release(t))
	f, out := h.fetcher(t)
	if err := f.fetch(t.Context(), wanted()); err != nil {
		t.Fatal(err)
	}
	want := []string{"etcd", "kube-apiserver-v1.2.3", "kube-controller-manager", "kube-scheduler", "kubectl"}
	if got := left(t, f); !slices.Equal(got, want) {
		t.Errorf("in bin/: %v, want %v", got, want)
	}
	for name, content := range map[string]string{"kube-apiserver-v1.2.3": theAPIServer, "etcd": theEtcd} {
		got, err := os.ReadFile(filepath.Join(f.bin, name))
		info, statErr := os.Stat(filepath.Join(f.bin, name))
		if err != nil || statErr != nil || string(got) != content || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %q, %v, %v", name, got, info, err)
		}
	}
	if pin := hashed([]byte(theAPIServer)) + "  " + apiserver; !strings.Contains(out.String(), pin) || !strings.Contains(out.String(), "5 files have no pinned checksum") {
		t.Errorf("the output lacks the pin %s:\n%s", pin, out)
	}
	h.asked = nil
	if err := f.fetch(t.Context(), wanted()); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(h.asked, "/"+apiserver) {
		t.Errorf("existing files were fetched again: %v", h.asked)
	}
}

// TestPins checks that a pin overrides the host's checksum: fetch does not ask for the latter, and refuses a file that only the latter
// matches.
func TestPins(t *testing.T) {
	h := newHost(t, release(t))
	f, out := h.fetcher(t)
	f.pins[apiserver] = hashed([]byte(theAPIServer))
	if err := f.fetch(t.Context(), wanted()[1:2]); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(h.asked, []string{"/" + apiserver}) || strings.Contains(out.String(), "no pinned checksum") {
		t.Errorf("asked %v and printed %s", h.asked, out)
	}
	f, _ = h.fetcher(t)
	f.pins[apiserver] = hashed([]byte("what was released once"))
	refused(t, f, wanted()[1:2], "SHA-256 is "+hashed([]byte(theAPIServer))+", and should be "+f.pins[apiserver])
}

// refused checks that fetch fails with an error that contains says, and leaves nothing in bin/.
func refused(t *testing.T, f *fetcher, all []file, says string) {
	t.Helper()
	err := f.fetch(t.Context(), all)
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("error %v, want one that contains %q", err, says)
	}
	if got := left(t, f); len(got) > 0 {
		t.Errorf("left in bin/: %v", got)
	}
}

// TestRefused checks that fetch refuses every file that differs from the released one, with an error that says why.
func TestRefused(t *testing.T) {
	tests := map[string]struct {
		file  int
		spoil func(*host)
		says  string
	}{
		"another checksum":         {1, func(h *host) { h.serves["/"+apiserver] = []byte("something else") }, "The file was thrown away"},
		"an archive is another":    {0, func(h *host) { h.serves["/etcd/"+etcdArchive] = []byte("something else") }, "The file was thrown away"},
		"no file":                  {1, func(h *host) { delete(h.serves, "/"+apiserver) }, "kube-apiserver answers 404 Not Found. Run make kube without PREBUILT"},
		"no checksum":              {1, func(h *host) { delete(h.serves, "/"+apiserver+".sha256") }, "kube-apiserver.sha256 answers 404 Not Found"},
		"a checksum that is none":  {1, func(h *host) { h.serves["/"+apiserver+".sha256"] = []byte("<html>moved</html>") }, "has no SHA-256 of kube-apiserver"},
		"no checksum of this file": {0, func(h *host) { h.serves["/etcd/v3.4.5/SHA256SUMS"] = []byte(hashed(nil) + "  other") }, "has no SHA-256 of etcd-v3.4.5-linux-amd64.tar.gz"},
		"broken off":               {1, func(h *host) { h.cut = "/" + apiserver }, "the download broke off"},
		"an archive breaks off":    {0, func(h *host) { h.cut = "/etcd/" + etcdArchive }, "the download broke off"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			h := newHost(t, release(t))
			test.spoil(h)
			f, _ := h.fetcher(t)
			refused(t, f, wanted()[test.file:test.file+1], test.says)
		})
	}
	t.Run("an archive without the program", func(t *testing.T) {
		h := newHost(t, release(t))
		h.serves["/etcd/"+etcdArchive] = pack(t, "README.md", "hello")
		f, _ := h.fetcher(t)
		f.pins[etcdArchive] = hashed(h.serves["/etcd/"+etcdArchive])
		refused(t, f, wanted()[:1], "the archive has no file etcd-v3.4.5-linux-amd64/etcd")
	})
}

// TestBrokenOffBeforeAnother checks that a broken download leaves the existing file unchanged.
func TestBrokenOffBeforeAnother(t *testing.T) {
	h := newHost(t, release(t))
	h.cut = "/" + apiserver
	f, _ := h.fetcher(t)
	target := filepath.Join(f.bin, "kube-apiserver-v1.2.3")
	if err := os.MkdirAll(f.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, []byte("the one before"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.fetch(t.Context(), wanted()[1:2]); err == nil {
		t.Error("fetch of a broken download returned no error")
	}
	if got, _ := os.ReadFile(target); string(got) != "the one before" || len(left(t, f)) != 1 {
		t.Errorf("in bin/: %v, with %q", left(t, f), got)
	}
}

// TestInterrupted checks that a cancelled download leaves no partial file.
func TestInterrupted(t *testing.T) {
	begun := make(chan struct{})
	slow := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("begins"))
		_ = http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)
	f := &fetcher{bin: t.TempDir(), kubernetes: slow.URL, client: slow.Client(), out: &strings.Builder{}, pins: map[string]string{apiserver: hashed(nil)}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { <-begun; cancel() }()
	if err := f.fetch(ctx, wanted()[1:2]); err == nil {
		t.Error("the cancelled fetch returned no error")
	}
	if got := left(t, f); len(got) > 0 {
		t.Errorf("left in bin/: %v", got)
	}
}

// TestTLSOnly checks that fetch refuses addresses and redirects without TLS.
func TestTLSOnly(t *testing.T) {
	if tlsOnly("http://releases.example") == nil || tlsOnly("https://releases.example/a") != nil {
		t.Error("tlsOnly accepts plain HTTP or refuses TLS")
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	moved := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	t.Cleanup(moved.Close)
	client := moved.Client()
	client.CheckRedirect = onlyTLS
	f := &fetcher{bin: t.TempDir(), kubernetes: moved.URL, client: client, out: &strings.Builder{}}
	refused(t, f, wanted()[1:2], "is not an https URL")
}

// TestOfTheCheckout checks that the versions and pins of this checkout can be read, and that each pin names a fetched file.
func TestOfTheCheckout(t *testing.T) {
	t.Chdir("../..")
	versions, err := kubernetesVersions("cloud/emulator/workload/versions.txt")
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := etcdVersion("hack/kube/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	pins, err := readPins("hack/kube/checksums.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{runtime.GOARCH, "amd64", "arm64"} {
		for _, file := range files(versions, etcd, arch, true) {
			delete(pins, file.path)
		}
	}
	if len(pins) > 0 {
		t.Errorf("pins of files that are never fetched: %v", pins)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("abc  "+apiserver), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readPins(bad); err == nil || !strings.Contains(err.Error(), "bad:1") {
		t.Errorf("error for a pin that is not a SHA-256: %v", err)
	}
}
