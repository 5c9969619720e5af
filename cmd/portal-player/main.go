// SPDX-License-Identifier: Apache-2.0

// Command portal-player plays a recording of make demo in a browser: the page of package cloud/emulator/page with the events of a run that
// is over. It needs neither Kubernetes nor anything else from bin/, so it compiles in seconds and can be watched while the rest compiles:
//
//	go run ./cmd/portal-player
//	go run ./cmd/portal-player --write folder    # the same as files, for any server of files
//	go run ./cmd/portal-player file              # another recording
//
// The recording demo.jsonl.gz is part of the program. A test fails when the page gets other data than before. Then make it again:
//
//	make demo FLAGS='--record cmd/portal-player/demo.jsonl.gz'
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

//go:embed demo.jsonl.gz
var demo []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "portal-player:", err)
		os.Exit(1)
	}
}

// run serves the recording until the context ends, or writes it.
func run(ctx context.Context, arguments []string, out io.Writer) error {
	set := flag.NewFlagSet("portal-player", flag.ContinueOnError)
	listen := set.String("listen", "127.0.0.1:0", "loopback `address` of the page for a browser, plain HTTP. Port 0 takes a free port")
	folder := set.String("write", "", "write the page and the recording into this `folder` instead, for a server of files")
	set.Usage = func() {
		_, _ = fmt.Fprint(set.Output(), "portal-player [flags] [file]\n\nPlays a recording of make demo, or the file that portal-sandbox demo --record has written.\n\n")
		set.PrintDefaults()
	}
	switch err := set.Parse(arguments); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	data := demo
	if file := set.Arg(0); file != "" {
		var err error
		if data, err = os.ReadFile(file); err != nil {
			return err
		}
	}
	recording, err := page.ReadRecording(data)
	if err != nil {
		return fmt.Errorf("this recording cannot be played: %w", err)
	}
	if *folder != "" {
		return write(*folder, data)
	}
	server, err := page.ListenPlayer(ctx, *listen, data)
	if err != nil {
		return err
	}
	about := recording.About
	if _, err := fmt.Fprintf(out, "A recording of %s (%s, seed %d) until Ctrl-C: %s\n", about.Name, about.Version, about.Seed, server.URL); err != nil {
		return err
	}
	<-ctx.Done()
	return server.Close()
}

// write writes the page and the recording into a folder.
func write(folder string, recording []byte) error {
	files, err := page.PlayerFiles(recording)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // Everybody may read what is for a web server.
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return nil
}
