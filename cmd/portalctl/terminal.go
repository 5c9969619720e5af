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

// terminal is where a person can be asked, whatever standard input and output are.
type terminal struct {
	tty *os.File

	mu     sync.Mutex
	before *term.State // while a secret is asked for: how the terminal was
}

// openTerminal gives nil where there is none.
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

// ask reads a line. A read from a terminal cannot be called off: when the context ends first it is left to the end of
// the program.
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
		if errors.Is(line.err, io.EOF) { // Ctrl-C or Ctrl-D: while a secret is asked for they send no signal
			_, _ = fmt.Fprint(t.screen(), "\r\n")
			return "", context.Canceled
		}
		return line.text, line.err
	case <-ctx.Done():
		_, _ = fmt.Fprint(t.screen(), "\r\n")
		return "", ctx.Err()
	}
}

// hide ends the echo. It comes before the prompt: who is quick would see the start of the secret otherwise.
func (t *terminal) hide() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.before, err = term.MakeRaw(int(t.tty.Fd()))
	return err
}

// restore gives the echo back, if it is gone. The program must not end without it.
func (t *terminal) restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.before != nil {
		_ = term.Restore(int(t.tty.Fd()), t.before) // there is nothing else to try
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

// screen is where questions appear; standard input cannot be written to everywhere.
func (t *terminal) screen() *os.File {
	if t.tty == os.Stdin {
		return os.Stderr
	}
	return t.tty
}
