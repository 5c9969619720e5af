// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	client := &http.Client{CheckRedirect: onlyTLS}
	f := &fetcher{bin: "bin", client: client, answer: 5 * time.Second, pause: 30 * time.Second, out: os.Stderr}
	list := flag.String("images", filepath.Join("hack", "prebuilt", "images.txt"), "`file` with the images")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	fetched, err := f.fetch(ctx, *list, flag.Args())
	fmt.Println(strings.Join(fetched, " "))
	if err != nil && os.Getenv("PREBUILT") != "1" && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "compiling instead of fetching %v\n", err)
		err = nil
	}
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "hack/prebuilt: %v\n", err)
		os.Exit(1)
	}
}

// fetcher fetches programs from container images into bin.
type fetcher struct {
	bin    string
	client *http.Client
	answer time.Duration // how long a registry may take until it answers
	pause  time.Duration // how long an answer may pause
	out    io.Writer
}

// image is a line of images.txt.
type image struct {
	file             string // the program's name in the image
	host, repository string
	reference        string // the digest, or the tag if there is no digest
}

// fetch fetches the programs up to the first error, and returns the names of those that are in bin now.
func (f *fetcher) fetch(ctx context.Context, list string, programs []string) (fetched []string, err error) {
	images, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	for i, program := range programs {
		begin := time.Now()
		img, err := find(string(images), program)
		if err != nil {
			return fetched, fmt.Errorf("%s: %w", program, err)
		}
		digest, err := f.install(ctx, img, filepath.Join(f.bin, program))
		if err != nil {
			return fetched, fmt.Errorf("%s: %w", program, err)
		}
		_, _ = fmt.Fprintf(f.out, "[%d/%d] %-28s fetched, %.0f s\n", i+1, len(programs), program, time.Since(begin).Seconds())
		if digest != img.reference {
			_, _ = fmt.Fprintf(f.out, "      not pinned, so only %s vouches for it: @%s\n", img.host, digest)
		}
		fetched = append(fetched, program)
	}
	return fetched, nil
}

// find finds the image of the program in the text of images.txt.
func find(images, program string) (image, error) {
	for line := range strings.Lines(images) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == program {
			name, digest, _ := strings.Cut(fields[2], "@")
			host, name, _ := strings.Cut(name, "/")
			repository, tag, _ := strings.Cut(name, ":")
			return image{fields[1], host, repository, cmp.Or(digest, tag)}, nil
		}
	}
	return image{}, errors.New("no image is listed")
}
