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

// TestAskHidesSecrets: a secret is not shown while it is typed. After an interrupt, the terminal shows again what the user types.
func TestAskHidesSecrets(t *testing.T) {
	for name, test := range map[string]struct {
		secret, interrupt bool
		keys              string
		want              typed
	}{
		"a secret":                {secret: true, keys: "friend\r", want: typed{"friend", nil}},
		"an answer":               {keys: "friend\r", want: typed{"friend", nil}},
		"interrupted":             {secret: true, interrupt: true, want: typed{"", context.Canceled}},
		"Ctrl-C, a key as others": {secret: true, keys: "fri\x03", want: typed{"", context.Canceled}},
	} {
		person, program := newTerminal(t) // of its own, because an interrupted case still reads
		ctx, interrupt := context.WithCancel(t.Context())
		answer := make(chan typed, 1)
		go func() {
			text, err := (&terminal{tty: program}).ask(ctx, "Speak: ", test.secret)
			answer <- typed{text, err}
		}()
		screen := shown(t, person, "Speak: ")
		if test.secret && echoes(t, program) {
			t.Errorf("%s: the prompt comes before the end of the echo", name)
		}
		_, _ = person.WriteString(test.keys) // what could not be written shows as a test that does not end
		if test.interrupt {
			interrupt()
		}
		got := <-answer
		if got.text != test.want.text || !errors.Is(got.err, test.want.err) || !echoes(t, program) {
			t.Errorf("%s: got %+v", name, got)
		}
		if screen += shown(t, person, "\n"); strings.Contains(screen, "friend") == test.secret && got.err == nil {
			t.Errorf("%s: the screen shows %q", name, screen)
		}
		if test.interrupt {
			_, _ = person.WriteString("\r") // lets the read end that cannot be called off
		}
		interrupt()
	}
}
