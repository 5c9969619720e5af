// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// platform is the operating system and the architecture that an image is for.
type platform struct{ OS, Architecture string }

// here is the platform of this machine.
var here = platform{runtime.GOOS, runtime.GOARCH}

func (p platform) String() string { return p.OS + "/" + p.Architecture }

// descriptor is a manifest's reference to a layer or to its configuration, or an index's reference to the manifest for a platform.
type descriptor struct {
	Digest   string
	Size     int64
	Platform platform
}

// manifest is an index, or the manifest of an image for one platform.
type manifest struct {
	Manifests, Layers []descriptor
	Config            descriptor
}

// install puts the image's program at target. It returns the digest of the image.
func (f *fetcher) install(ctx context.Context, img image, target string) (string, error) {
	digest, layers, err := f.layers(ctx, img)
	if err != nil {
		return "", err
	}
	part, err := os.CreateTemp(filepath.Dir(target), ".part-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(part.Name()) //nolint:errcheck // It has been renamed, or it is useless.
	defer part.Close()
	for _, layer := range layers {
		found, err := f.extract(ctx, img, layer.Digest, part)
		if err != nil {
			return "", err
		}
		if !found {
			continue
		}
		if err := errors.Join(part.Chmod(0o755), part.Close()); err != nil {
			return "", err
		}
		return digest, os.Rename(part.Name(), target)
	}
	return "", fmt.Errorf("%s/%s has no file %s for %s", img.host, img.repository, img.file, here)
}

// layers returns the image's digest and its layers for this platform. The largest layer comes first, because it nearly always has the
// program. Then the others are never requested.
func (f *fetcher) layers(ctx context.Context, img image) (string, []descriptor, error) {
	digest, m, err := f.manifest(ctx, img, img.reference)
	if err != nil {
		return "", nil, err
	}
	if len(m.Manifests) > 0 {
		ours := slices.IndexFunc(m.Manifests, func(d descriptor) bool { return d.Platform == here })
		if ours < 0 {
			return "", nil, fmt.Errorf("%s/%s has no image for %s", img.host, img.repository, here)
		}
		_, m, err = f.manifest(ctx, img, m.Manifests[ours].Digest)
	} else {
		err = f.isForHere(ctx, img, m.Config.Digest)
	}
	if err != nil {
		return "", nil, err
	}
	slices.SortFunc(m.Layers, func(a, b descriptor) int { return cmp.Compare(b.Size, a.Size) })
	return digest, m.Layers, nil
}

// isForHere returns an error unless the configuration of an image for one platform names this machine's.
func (f *fetcher) isForHere(ctx context.Context, img image, digest string) error {
	answer, err := f.get(ctx, img, "blobs/"+digest)
	if err != nil {
		return err
	}
	defer answer.Close()
	text, err := io.ReadAll(io.LimitReader(answer, 1<<20))
	if err != nil {
		return err
	}
	var is platform
	switch got := fmt.Sprintf("sha256:%x", sha256.Sum256(text)); {
	case got != digest:
		return fmt.Errorf("%s answers with %s, not with the configuration %s", img.host, got, digest)
	case json.Unmarshal(text, &is) != nil || is != here:
		return fmt.Errorf("%s/%s is an image for %s only, not for %s", img.host, img.repository, is, here)
	}
	return nil
}

// manifest returns a manifest and its digest. If the reference is a digest, the manifest must have it.
func (f *fetcher) manifest(ctx context.Context, img image, reference string) (digest string, m manifest, err error) {
	answer, err := f.get(ctx, img, "manifests/"+reference)
	if err != nil {
		return "", m, err
	}
	defer answer.Close()
	text, err := io.ReadAll(io.LimitReader(answer, 1<<20))
	if err != nil {
		return "", m, err
	}
	digest = fmt.Sprintf("sha256:%x", sha256.Sum256(text))
	if strings.HasPrefix(reference, "sha256:") && digest != reference {
		return "", m, fmt.Errorf("%s answers with %s, not with %s", img.host, digest, reference)
	}
	return digest, m, json.Unmarshal(text, &m)
}

// extract writes the program to a file if the layer has it. It returns an error unless the layer, read to its end, has the digest.
func (f *fetcher) extract(ctx context.Context, img image, digest string, to io.Writer) (found bool, err error) {
	answer, err := f.get(ctx, img, "blobs/"+digest)
	if err != nil {
		return false, err
	}
	defer answer.Close()
	hash := sha256.New()
	layer := io.TeeReader(answer, hash)
	unzipped, err := gzip.NewReader(layer)
	if err != nil {
		return false, err
	}
	for files := tar.NewReader(unzipped); !found; {
		file, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return false, err
		}
		if found = file.Typeflag == tar.TypeReg && path.Base(file.Name) == img.file; found {
			if _, err := io.Copy(to, files); err != nil { //nolint:gosec // The largest programs have 100 MB.
				return false, err
			}
		}
	}
	if _, err := io.Copy(io.Discard, layer); err != nil {
		return false, err
	}
	if got := fmt.Sprintf("sha256:%x", hash.Sum(nil)); got != digest {
		return false, fmt.Errorf("%s answers with %s, not with the layer %s", img.host, got, digest)
	}
	return found, nil
}

// get requests a manifest or a layer. The request and the reading of its answer fail if the registry is silent for too long.
func (f *fetcher) get(ctx context.Context, img image, what string) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	silence := time.AfterFunc(f.answer, func() { cancel(fmt.Errorf("no answer from %s", img.host)) })
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+img.host+"/v2/"+img.repository+"/"+what, nil)
	if err != nil {
		return nil, err
	}
	request.Header["Accept"] = []string{
		"application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
		"application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json", "*/*",
	}
	request.Header.Set("Accept-Encoding", "identity") // A digest is that of the bytes in the registry.
	response, err := f.client.Do(request)
	if err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s answers %s to %s", img.host, response.Status, what)
	}
	return &answer{response.Body, ctx, silence, f.pause}, nil
}

// answer is the body of an answer. A long pause ends the reading with an error.
type answer struct {
	io.ReadCloser
	ctx     context.Context //nolint:containedctx // Of the request: a body is read without one.
	silence *time.Timer
	pause   time.Duration
}

func (a *answer) Read(p []byte) (int, error) {
	a.silence.Reset(a.pause)
	n, err := a.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = cmp.Or(context.Cause(a.ctx), err)
	}
	return n, err
}

func (a *answer) Close() error {
	a.silence.Stop()
	return a.ReadCloser.Close()
}

// onlyTLS refuses redirects to addresses without TLS.
func onlyTLS(request *http.Request, via []*http.Request) error {
	if request.URL.Scheme != "https" || len(via) > 5 {
		return fmt.Errorf("redirected to %s", request.URL)
	}
	return nil
}
