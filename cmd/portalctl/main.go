// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second Ctrl-C ends the program at once
	s := environment{
		in:     os.Stdin,
		out:    os.Stdout,
		err:    os.Stderr,
		getenv: os.Getenv,
		live:   term.IsTerminal(int(os.Stdout.Fd())) && term.IsTerminal(int(os.Stderr.Fd())),
	}
	person := openTerminal()
	if person != nil {
		s.ask = person.ask
	}
	code := execute(ctx, s, os.Args[1:])
	if person != nil {
		person.restore() // an interrupt may have come before the answer to a question
	}
	os.Exit(int(code))
}
