// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// newTerminal gives both ends of a pseudo terminal: the person's, and the program's.
func newTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { _ = person.Close() })
	var number, unlocked int32
	for request, argument := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlocked, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, person.Fd(), request, uintptr(unsafe.Pointer(argument))); errno != 0 {
			t.Fatal(errno)
		}
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Close() })
	return person, program
}

// shown is what the person sees until the text appears.
func shown(t *testing.T, person *os.File, until string) string {
	t.Helper()
	var seen strings.Builder
	buffer := make([]byte, 256)
	for !strings.Contains(seen.String(), until) {
		n, err := person.Read(buffer)
		if err != nil {
			t.Fatalf("%v after %q", err, seen.String())
		}
		seen.Write(buffer[:n])
	}
	return seen.String()
}

func echoes(t *testing.T, tty *os.File) bool {
	t.Helper()
	var state syscall.Termios
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), syscall.TCGETS, uintptr(unsafe.Pointer(&state))); errno != 0 {
		t.Fatal(errno)
	}
	return state.Lflag&syscall.ECHO != 0
}

// prompt asks the person, and returns the answer to come and what the person has seen so far.
func prompt(ctx context.Context, t *testing.T, person, program *os.File, secret bool) (answer chan typed, screen string) {
	t.Helper()
	answer = make(chan typed, 1)
	go func() {
		text, err := (&terminal{tty: program}).ask(ctx, "Speak: ", secret)
		answer <- typed{text, err}
	}()
	return answer, shown(t, person, "Speak: ")
}

func TestAskHidesSecrets(t *testing.T) {
	person, program := newTerminal(t)
	for _, secret := range []bool{true, false} {
		answer, screen := prompt(t.Context(), t, person, program, secret)
		if _, err := person.WriteString("friend\r"); err != nil {
			t.Fatal(err)
		}
		screen += shown(t, person, "\n")
		if got := <-answer; got.text != "friend" || got.err != nil || !echoes(t, program) {
			t.Errorf("got %+v", got)
		}
		if strings.Contains(screen, "friend") == secret {
			t.Errorf("secret %v, the screen shows %q", secret, screen)
		}
	}
}

// TestAskInterrupted: after an interrupt at a password prompt, the terminal shows again what the user types.
func TestAskInterrupted(t *testing.T) {
	person, program := newTerminal(t)
	ctx, interrupt := context.WithCancel(t.Context())
	answer, _ := prompt(ctx, t, person, program, true)
	if echoes(t, program) {
		t.Error("the prompt comes before the end of the echo")
	}
	interrupt()
	if got := <-answer; !errors.Is(got.err, context.Canceled) || !echoes(t, program) {
		t.Errorf("got %+v", got)
	}
	_, _ = person.WriteString("\r") // lets the read end that cannot be called off
}

// TestAskRefused: Ctrl-C is a key like any other while a secret is typed.
func TestAskRefused(t *testing.T) {
	person, program := newTerminal(t)
	answer, _ := prompt(t.Context(), t, person, program, true)
	_, _ = person.WriteString("fri\x03") // what could not be written shows as a test that does not end
	if got := <-answer; !errors.Is(got.err, context.Canceled) || got.text != "" || !echoes(t, program) {
		t.Errorf("got %+v", got)
	}
}
