// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// terminal is where a person can be asked, even if standard input and output are redirected.
type terminal struct {
	tty *os.File

	mu     sync.Mutex
	before *term.State // the terminal's state before a secret was asked for
}

// openTerminal returns nil if no terminal exists.
func openTerminal() *terminal {
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		return &terminal{tty: tty}
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		return &terminal{tty: os.Stdin}
	}
	return nil
}

type typed struct {
	text string
	err  error
}

// ask reads a line. A read from a terminal cannot be canceled. If the context ends first, the read goes on until the program
// ends.
func (t *terminal) ask(ctx context.Context, prompt string, secret bool) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	read := t.readLine
	if secret {
		if err := t.hide(); err != nil {
			return "", err
		}
		defer t.restore()
		read = t.readSecret
	}
	done := make(chan typed, 1)
	go func() {
		text, err := read(prompt)
		done <- typed{text, err}
	}()
	select {
	case line := <-done:
		if errors.Is(line.err, io.EOF) { // Ctrl-C or Ctrl-D, which send no signal while a secret is asked for
			_, _ = fmt.Fprint(t.screen(), "\r\n")
			return "", context.Canceled
		}
		return line.text, line.err
	case <-ctx.Done():
		_, _ = fmt.Fprint(t.screen(), "\r\n")
		return "", ctx.Err()
	}
}

// hide turns the echo off. It runs before the prompt is shown, because a fast user's first characters would be visible otherwise.
func (t *terminal) hide() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.before, err = term.MakeRaw(int(t.tty.Fd()))
	return err
}

// restore turns the echo on again, if it is off. The program must not end without it.
func (t *terminal) restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.before != nil {
		_ = term.Restore(int(t.tty.Fd()), t.before) // a failure cannot be handled
		t.before = nil
	}
}

func (t *terminal) readSecret(prompt string) (string, error) {
	return term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{t.tty, t.screen()}, "").ReadPassword(prompt)
}

func (t *terminal) readLine(prompt string) (string, error) {
	if _, err := fmt.Fprint(t.screen(), prompt); err != nil {
		return "", err
	}
	text, err := bufio.NewReader(t.tty).ReadString('\n')
	return strings.TrimRight(text, "\r\n"), err
}

// screen is where questions appear. Standard input is not writable everywhere.
func (t *terminal) screen() *os.File {
	if t.tty == os.Stdin {
		return os.Stderr
	}
	return t.tty
}
