// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// registry serves images over TLS.
type registry struct {
	*httptest.Server
	host   string
	serves map[string][]byte // by path
	cut    string            // the path whose answer breaks off
	mute   string            // the path whose answer never begins
	silent string            // the path whose answer never ends
	asked  []string
}

func newRegistry(t *testing.T) *registry {
	r := &registry{serves: map[string][]byte{}}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		path := strings.TrimPrefix(request.URL.Path, "/v2/")
		r.asked = append(r.asked, path)
		content, found := r.serves[path]
		if !found {
			http.NotFound(w, request)
			return
		}
		if path == r.mute {
			<-request.Context().Done()
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		if path == r.cut || path == r.silent {
			_, _ = w.Write(content[:len(content)/2])
			_ = http.NewResponseController(w).Flush()
			if path == r.silent {
				<-request.Context().Done()
			}
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(content)
	}))
	t.Cleanup(r.Close)
	r.host = strings.TrimPrefix(r.URL, "https://")
	return r
}

// put stores content, and returns its digest.
func (r *registry) put(kind string, content []byte) string {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
	r.serves[kind+digest] = content
	return digest
}

// push pushes an image for two platforms. It returns the digest of its index, and the paths of the manifest and of the layer for this machine.
func (r *registry) push(t *testing.T, repository, tag, program, content string) (digest, manifest, layer string) {
	t.Helper()
	blob := func(name, content string) string {
		layer := pack(t, name, content)
		return fmt.Sprintf(`{"digest": %q, "size": %d}`, r.put(repository+"/blobs/", layer), len(layer))
	}
	base := blob("etc/"+program+".conf", "of no use")
	platform := func(architecture, content string) string {
		layers := fmt.Sprintf(`{"schemaVersion": 2, "layers": [%s, %s]}`, base, blob("usr/bin/"+program, content))
		digest := r.put(repository+"/manifests/", []byte(layers))
		return fmt.Sprintf(`{"digest": %q, "platform": {"os": %q, "architecture": %q}}`, digest, runtime.GOOS, architecture)
	}
	index := fmt.Appendf(nil, `{"schemaVersion": 2, "manifests": [%s, %s]}`, platform("vax", "for a museum"), platform(runtime.GOARCH, content))
	r.serves[repository+"/manifests/"+tag] = index
	digests := regexp.MustCompile("sha256:[0-9a-f]+")
	manifest = repository + "/manifests/" + digests.FindAllString(string(index), -1)[1]
	layer = repository + "/blobs/" + digests.FindAllString(string(r.serves[manifest]), -1)[1]
	return r.put(repository+"/manifests/", index), manifest, layer
}

// random cannot be compressed.
var random = func() string {
	content := make([]byte, 1<<16)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	return string(content)
}()

// scheduler is larger than what else is in an image.
var scheduler = "schedules " + random

// pack returns a layer with a directory and a file of the same name, and after them a file that cannot be compressed.
func pack(t *testing.T, name, content string) []byte {
	t.Helper()
	var layer bytes.Buffer
	zipped := gzip.NewWriter(&layer)
	files := tar.NewWriter(zipped)
	for _, file := range []struct {
		name, content string
		kind          byte
	}{{"var/lib/" + filepath.Base(name), "", tar.TypeDir}, {name, content, tar.TypeReg}, {"LICENSE", random, tar.TypeReg}} {
		if err := files.WriteHeader(&tar.Header{Name: file.name, Typeflag: file.kind, Mode: 0o755, Size: int64(len(file.content))}); err != nil {
			t.Fatal(err)
		}
		_, _ = files.Write([]byte(file.content))
	}
	_, _ = files.Close(), zipped.Close()
	return layer.Bytes()
}

// fetch fetches programs from the listed images into an empty bin, and returns bin, the output, and what fetch returns.
func (r *registry) fetch(t *testing.T, list string, programs ...string) (bin, out string, fetched []string, err error) {
	t.Helper()
	bin = t.TempDir()
	images := filepath.Join(t.TempDir(), "images.txt")
	if err := os.WriteFile(images, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	client := r.Client()
	client.CheckRedirect = onlyTLS
	var text strings.Builder
	f := &fetcher{bin: bin, client: client, answer: time.Minute, pause: time.Minute, out: &text}
	if r.mute != "" {
		f.answer = 100 * time.Millisecond
	}
	if r.silent != "" {
		f.pause = 100 * time.Millisecond
	}
	fetched, err = f.fetch(t.Context(), images, programs)
	return bin, text.String(), fetched, err
}

// content returns the content of bin/, by name.
func content(t *testing.T, bin string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(bin)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(bin, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		files[fmt.Sprint(entry.Name(), " ", info.Mode())] = string(text)
	}
	return files
}

// TestFetch checks that programs are taken from the layers for this machine, that other layers are not requested, and that the output names
// the image without a pin.
func TestFetch(t *testing.T) {
	r := newRegistry(t)
	pinned, manifest, layer := r.push(t, "group/scheduler", "v1.2.3", "kube-scheduler", scheduler)
	found, _, _ := r.push(t, "etcd", "v3.4.5", "etcd", "stores "+scheduler)
	list := "# comment\nscheduler kube-scheduler " + r.host + "/group/scheduler:v1.2.3@" + pinned + "\netcd etcd " + r.host + "/etcd:v3.4.5\n"
	bin, out, fetched, err := r.fetch(t, list, "scheduler", "etcd")
	if err != nil || !slices.Equal(fetched, []string{"scheduler", "etcd"}) {
		t.Fatalf("fetched %v: %v\n%s", fetched, err, out)
	}
	if got := content(t, bin); len(got) != 2 || got["scheduler -rwxr-xr-x"] != scheduler || got["etcd -rwxr-xr-x"] != "stores "+scheduler {
		t.Errorf("in bin/: %q", slices.Sorted(maps.Keys(got)))
	}
	if len(r.asked) != 6 || !slices.Equal(r.asked[:4], []string{"group/scheduler/manifests/" + pinned, manifest, layer, "etcd/manifests/v3.4.5"}) {
		t.Errorf("requested: %q", r.asked)
	}
	if strings.Count(out, "not pinned") != 1 || !strings.Contains(out, "only "+r.host+" vouches for it: @"+found) {
		t.Errorf("the output does not say that only etcd has no pin:\n%s", out)
	}
}

// TestRefusals checks that nothing is kept of an image that is wrong or does not arrive, and that the program before it is kept.
func TestRefusals(t *testing.T) {
	const notPinned, otherLayer = "not with sha256:", "not with the layer sha256:"
	for name, c := range map[string]struct {
		spoil func(r *registry, index, manifest, layer string)
		says  string
	}{
		"another index":      {func(r *registry, index, _, _ string) { r.serves[index] = append(r.serves[index], ' ') }, notPinned},
		"another manifest":   {func(r *registry, _, manifest, _ string) { r.serves[manifest] = append(r.serves[manifest], ' ') }, notPinned},
		"another program":    {func(r *registry, _, _, layer string) { r.serves[layer] = pack(t, "bin/kube-scheduler", "steals") }, otherLayer},
		"a longer layer":     {func(r *registry, _, _, layer string) { r.serves[layer] = append(r.serves[layer], ' ') }, otherLayer},
		"no archive":         {func(r *registry, _, _, layer string) { r.serves[layer] = []byte("<html>Welcome</html>") }, "gzip: invalid header"},
		"no such image":      {func(r *registry, index, _, _ string) { delete(r.serves, index) }, "answers 404 Not Found to manifests/sha256:"},
		"the layer stops":    {func(r *registry, _, _, layer string) { r.cut = layer }, "unexpected EOF"},
		"the layer stalls":   {func(r *registry, _, _, layer string) { r.silent = layer }, "no answer from 127.0.0.1"},
		"the host is silent": {func(r *registry, index, _, _ string) { r.mute = index }, "no answer from 127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRegistry(t)
			r.push(t, "etcd", "v3.4.5", "etcd", "stores")
			digest, manifest, layer := r.push(t, "scheduler", "v1.2.3", "kube-scheduler", scheduler)
			c.spoil(r, "scheduler/manifests/"+digest, manifest, layer)
			list := "scheduler kube-scheduler " + r.host + "/scheduler:v1.2.3@" + digest + "\netcd etcd " + r.host + "/etcd:v3.4.5\n"
			before := []string{"etcd"}
			if r.mute != "" || r.silent != "" {
				before = nil // It would have to arrive within the short time limit of these cases.
			}
			bin, _, fetched, err := r.fetch(t, list, append(slices.Clone(before), "scheduler", "etcd")...)
			if err == nil || !strings.HasPrefix(err.Error(), "scheduler: ") || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error: %v", err)
			}
			if got := content(t, bin); len(got) != len(before) || !slices.Equal(fetched, before) {
				t.Errorf("fetched %v, and in bin/: %q", fetched, slices.Sorted(maps.Keys(got)))
			}
		})
	}
}

// TestUnusableImages checks what is installed of an image without the program, which it is if a project moved the program to another image, of
// an image without an index, and of one that a redirect offers without TLS.
func TestUnusableImages(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	withoutIndex := func(architecture string) func(*registry) {
		return func(r *registry) {
			config := r.put("etcd/blobs/", fmt.Appendf(nil, `{"os": %q, "architecture": %q}`, runtime.GOOS, architecture))
			layer := r.put("etcd/blobs/", pack(t, "bin/etcd", "stores"))
			r.serves["etcd/manifests/v3.4.5"] = fmt.Appendf(nil, `{"config": {"digest": %q}, "layers": [{"digest": %q, "size": 1}]}`, config, layer)
		}
	}
	for name, test := range map[string]struct {
		serve func(*registry)
		says  string // empty: it is installed
	}{
		"without the program": {func(r *registry) { r.push(t, "etcd", "v3.4.5", "etcd-server", "stores") }, "/etcd has no file etcd for "},
		"for this machine":    {withoutIndex(runtime.GOARCH), ""},
		"for another machine": {withoutIndex("vax"), "is an image for " + runtime.GOOS + "/vax only"},
		"redirected":          {func(r *registry) { r.Config.Handler = http.RedirectHandler(plain.URL, http.StatusFound) }, "redirected to http://"},
	} {
		r := newRegistry(t)
		test.serve(r)
		bin, _, _, err := r.fetch(t, "etcd etcd "+r.host+"/etcd:v3.4.5", "etcd")
		if installed := len(content(t, bin)) > 0; installed != (test.says == "") || err == nil != installed || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, installed: %t", name, err, installed)
		}
	}
}

// TestImagesOfTheCheckout checks that images.txt has the versions that would be compiled, and no digest that cannot be one.
func TestImagesOfTheCheckout(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	version := func(mod, module string) string {
		found := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(module) + ` (v\S+)`).FindStringSubmatch(read(mod))
		if found == nil {
			t.Fatalf("%s does not require %s", mod, module)
		}
		return found[1]
	}
	const kube, capi = "hack/kube/go.mod", "sigs.k8s.io/cluster-api"
	want := map[string]string{
		"etcd":              "registry.k8s.io/etcd:" + version(kube, "go.etcd.io/etcd/server/v3"),
		"kwok":              "registry.k8s.io/kwok/kwok:" + version(kube, "sigs.k8s.io/kwok"),
		"capi-core-manager": "registry.k8s.io/cluster-api/cluster-api-controller:" + version("go.mod", capi),
		"clusterctl":        "registry.k8s.io/cluster-api/clusterctl:" + version("go.mod", capi),
		"kustomize":         "registry.k8s.io/kustomize/kustomize:" + version(kube, "sigs.k8s.io/kustomize/kustomize/v5"),
	}
	for _, v := range regexp.MustCompile(`(?m)^v\S+`).FindAllString(read("cloud/emulator/workload/versions.txt"), -1) {
		want["kube-apiserver-"+v] = "registry.k8s.io/kube-apiserver:" + v
		for _, program := range []string{"kube-controller-manager", "kube-scheduler", "kubectl"} {
			want[program] = "registry.k8s.io/" + program + ":" + v // The last version is the newest.
		}
	}
	valid := regexp.MustCompile(`^(\w\S*) +[\w-]+ +([^\s@]+)(?:@sha256:[0-9a-f]{64})?$`)
	for line := range strings.Lines(read("hack/prebuilt/images.txt")) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := valid.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if fields == nil || want[fields[1]] != fields[2] {
			t.Errorf("images.txt: %q is invalid, or has another version than the sources", line)
			continue
		}
		delete(want, fields[1])
	}
	if len(want) > 0 {
		t.Errorf("images.txt lacks %v", want)
	}
}
