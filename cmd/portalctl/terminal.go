// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// askAtTerminal gives the function that asks a person, or nil where there is none. It speaks to the terminal itself,
// so that standard input and output may both be pipes.
func askAtTerminal() func(context.Context, string, bool) (string, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		if !term.IsTerminal(int(os.Stdin.Fd())) {
			return nil
		}
		tty = os.Stdin
	}
	return func(ctx context.Context, prompt string, secret bool) (string, error) {
		return ask(ctx, tty, prompt, secret)
	}
}

type typed struct {
	text string
	err  error
}

// ask reads a line. A read from a terminal cannot be called off: when the context ends first, the terminal gets its
// echo back and the read is left to the end of the program.
func ask(ctx context.Context, tty *os.File, prompt string, secret bool) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	fd := int(tty.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	if _, err := fmt.Fprint(promptTo(tty), prompt); err != nil {
		return "", err
	}
	done := make(chan typed, 1)
	go func() { done <- read(tty, fd, secret) }()
	select {
	case line := <-done:
		if secret {
			_, _ = fmt.Fprintln(promptTo(tty)) // the newline that was typed was not shown
		}
		return line.text, line.err
	case <-ctx.Done():
		_ = term.Restore(fd, before) // there is nothing else to try
		_, _ = fmt.Fprintln(promptTo(tty))
		return "", ctx.Err()
	}
}

func read(tty *os.File, fd int, secret bool) typed {
	if secret {
		text, err := term.ReadPassword(fd)
		return typed{string(text), err}
	}
	text, err := bufio.NewReader(tty).ReadString('\n')
	return typed{strings.TrimRight(text, "\r\n"), err}
}

// promptTo is where questions appear; standard input cannot be written to everywhere.
func promptTo(tty *os.File) *os.File {
	if tty == os.Stdin {
		return os.Stderr
	}
	return tty
}
