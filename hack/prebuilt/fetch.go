// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// sumsLimit limits the size of a checksum file.
const sumsLimit = 1 << 20

// fetcher downloads and checks binaries.
type fetcher struct {
	bin              string
	kubernetes, etcd string // URLs of the projects' releases
	pins             map[string]string
	client           *http.Client
	out              io.Writer

	unpinned []string // lines that would pin the fetched files
}

// fetch puts all files into bin/. It keeps an existing file that has the right checksum.
func (f *fetcher) fetch(ctx context.Context, all []file) error {
	if err := os.MkdirAll(f.bin, 0o755); err != nil { //nolint:gosec // Others may run what is in it.
		return err
	}
	for i, file := range all {
		_, _ = fmt.Fprintf(f.out, "[%d/%d] %-28s", i+1, len(all), file.name)
		begin := time.Now()
		what, err := f.bring(ctx, file)
		if err != nil {
			return fmt.Errorf("%s: %w", file.name, err)
		}
		_, _ = fmt.Fprintf(f.out, " %s, %.0f s\n", what, time.Since(begin).Seconds())
	}
	if len(f.unpinned) > 0 {
		_, _ = fmt.Fprintf(f.out, "%d files have no pinned checksum. They were compared with the checksums that the release hosts publish. "+
			"These lines in hack/kube/checksums.txt pin them:\n%s\n", len(f.unpinned), strings.Join(f.unpinned, "\n"))
	}
	return nil
}

// bring puts one file into bin/ and returns a description of what it did.
func (f *fetcher) bring(ctx context.Context, file file) (string, error) {
	want, pinned := f.pins[file.path]
	if !pinned {
		published, err := f.published(ctx, file)
		if err != nil {
			return "", err
		}
		want = published
		f.unpinned = append(f.unpinned, want+"  "+file.path)
	}
	target := filepath.Join(f.bin, file.name)
	if file.member == "" && hashOf(target) == want {
		return "there already", nil
	}
	part, err := os.CreateTemp(f.bin, "."+file.name+".part-*")
	if err != nil {
		return "", err
	}
	defer os.Remove(part.Name()) //nolint:errcheck // It has been renamed, or it is useless.
	defer part.Close()           //nolint:errcheck // If the file is used, it is closed below.
	size, err := f.download(ctx, f.url(file, file.path), part, want)
	if err != nil {
		return "", err
	}
	if file.member != "" {
		if part, err = extract(part, file.member, f.bin); err != nil {
			return "", err
		}
		defer os.Remove(part.Name()) //nolint:errcheck // As above.
	}
	if err := errors.Join(part.Chmod(0o755), part.Close()); err != nil { //nolint:gosec // It is a program.
		return "", err
	}
	return fmt.Sprintf("%d MB", size>>20), os.Rename(part.Name(), target)
}

func (f *fetcher) url(file file, path string) string {
	if file.etcd {
		return f.etcd + "/" + path
	}
	return f.kubernetes + "/" + path
}

// published returns the checksum that the release host publishes, either alone in its file or in a line that names the download.
func (f *fetcher) published(ctx context.Context, file file) (string, error) {
	where := f.url(file, file.sums)
	body, err := f.get(ctx, where)
	if err != nil {
		return "", err
	}
	defer body.Close() //nolint:errcheck // It was only read.
	text, err := io.ReadAll(io.LimitReader(body, sumsLimit))
	if err != nil {
		return "", fmt.Errorf("%s: %w", where, err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		alone := len(fields) == 1 && file.member == ""
		named := len(fields) == 2 && strings.TrimPrefix(fields[1], "*") == path.Base(file.path)
		if (alone || named) && sum.MatchString(fields[0]) {
			return fields[0], nil
		}
	}
	return "", fmt.Errorf("%s has no SHA-256 of %s", where, path.Base(file.path))
}

// download writes the body of the URL to a file, and compares its checksum.
func (f *fetcher) download(ctx context.Context, from string, to io.Writer, want string) (int64, error) {
	body, err := f.get(ctx, from)
	if err != nil {
		return 0, err
	}
	defer body.Close() //nolint:errcheck // It was only read.
	hash := sha256.New()
	size, err := io.Copy(io.MultiWriter(to, hash, &dots{out: f.out}), body)
	if err != nil {
		return 0, fmt.Errorf("%s: the download broke off after %d MB: %w", from, size>>20, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		return 0, fmt.Errorf("%s: the SHA-256 is %s, and should be %s. The file was thrown away", from, got, want)
	}
	return size, nil
}

func (f *fetcher) get(ctx context.Context, from string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	response, err := f.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w. Run make kube without PREBUILT to compile it", err)
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s answers %s. Run make kube without PREBUILT to compile it", from, response.Status)
	}
	return response.Body, nil
}

// extract extracts one file of a gzipped archive into a temporary file.
func extract(archive *os.File, member, dir string) (*os.File, error) {
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		return nil, err
	}
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if err != nil {
			return nil, fmt.Errorf("the archive has no file %s: %w", member, err)
		}
		if header.Name != member {
			continue
		}
		out, err := os.CreateTemp(dir, "."+path.Base(member)+".part-*")
		if err != nil {
			return nil, err
		}
		if _, err := io.CopyN(out, reader, header.Size); err != nil {
			return nil, errors.Join(err, out.Close(), os.Remove(out.Name()))
		}
		return out, nil
	}
}

// hashOf returns the checksum of a file, or "" if the file cannot be read.
func hashOf(name string) string {
	open, err := os.Open(name) //nolint:gosec // A file in bin/.
	if err != nil {
		return ""
	}
	defer open.Close() //nolint:errcheck // It was only read.
	hash := sha256.New()
	if _, err := io.Copy(hash, open); err != nil {
		return ""
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// dots prints a dot for every ten megabytes written.
type dots struct {
	out  io.Writer
	seen int64
}

func (d *dots) Write(p []byte) (int, error) {
	const step = 10 << 20
	before := d.seen / step
	d.seen += int64(len(p))
	_, _ = io.WriteString(d.out, strings.Repeat(".", int(d.seen/step-before)))
	return len(p), nil
}

// tlsOnly returns an error if the address is not https.
func tlsOnly(address string) error {
	u, err := url.Parse(address)
	if err == nil && (u.Scheme != "https" || u.Host == "") {
		err = fmt.Errorf("%s is not an https URL", address)
	}
	return err
}

// onlyTLS refuses redirects to URLs that are not https.
func onlyTLS(request *http.Request, via []*http.Request) error {
	if len(via) > 5 {
		return errors.New("more than 5 redirects")
	}
	return tlsOnly(request.URL.String())
}
