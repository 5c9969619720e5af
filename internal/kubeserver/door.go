// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// acceptPause is the pause after a connection that could not be accepted, for example because this process has too many open files.
const acceptPause = 50 * time.Millisecond

// door forwards TCP connections to an API server. When it is shut, its connections end and its port refuses new ones, although the API
// server runs on.
type door struct {
	listener net.Listener
	server   string

	mu          sync.Mutex
	connections map[net.Conn]struct{} // nil when the door is shut
}

// openDoor listens on an address and forwards the connections to the server's address.
func openDoor(address, server string) (*door, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	d := &door{listener: listener, server: server, connections: map[net.Conn]struct{}{}}
	go d.accept()
	return d, nil
}

func (d *door) accept() {
	for {
		user, err := d.listener.Accept()
		switch {
		case err == nil:
			go d.forward(user)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(acceptPause)
		}
	}
}

// forward copies in both directions until one side ends the connection or the door is shut.
func (d *door) forward(user net.Conn) {
	defer d.drop(user)
	if !d.keep(user) {
		return
	}
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", d.server)
	if err != nil {
		return
	}
	defer d.drop(server)
	if !d.keep(server) {
		return
	}
	ended := make(chan struct{}, 2)
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // an error ends the connection, and both sides see that
		ended <- struct{}{}
	}
	go pipe(server, user)
	go pipe(user, server)
	<-ended
}

// keep has shut close the connection. It returns false if the door is shut.
func (d *door) keep(connection net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.connections == nil {
		return false
	}
	d.connections[connection] = struct{}{}
	return true
}

func (d *door) drop(connection net.Conn) {
	_ = connection.Close() // fails only if shut has closed it
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.connections, connection)
}

// shut closes the port and all connections. It does nothing for a nil door.
func (d *door) shut() {
	if d == nil {
		return
	}
	_ = d.listener.Close() // fails only if the door is shut already
	d.mu.Lock()
	defer d.mu.Unlock()
	for connection := range d.connections {
		_ = connection.Close() // fails only if drop has closed it
	}
	d.connections = nil
}
