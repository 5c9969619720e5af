// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
)

// TestDoor checks that a door forwards in both directions, and that a shut door ends its connections and refuses new ones.
func TestDoor(t *testing.T) {
	server, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() { // an echo for each connection
		for {
			connection, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				_, _ = io.Copy(connection, connection)
			}()
		}
	}()
	d, err := openDoor(net.JoinHostPort(loopback, "0"), server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	address := d.listener.Addr().String()
	user, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer user.Close()
	answers := bufio.NewReader(user)
	for _, line := range []string{"first\n", "second\n"} {
		if _, err := fmt.Fprint(user, line); err != nil {
			t.Fatal(err)
		}
		if answer, err := answers.ReadString('\n'); err != nil || answer != line {
			t.Fatalf("answer %q, error %v", answer, err)
		}
	}

	d.shut()
	if _, err := answers.ReadByte(); err == nil {
		t.Error("the connection is still open")
	}
	if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error %v, want a refused connection", err)
	}
	d.shut()
	(*door)(nil).shut()
}
