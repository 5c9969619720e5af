// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
)

// tlsListener answers plain HTTP in the documented shape of errors. A server of package net/http would send a line of text.
type tlsListener struct {
	net.Listener
	portal *Portal
}

// Accept implements net.Listener.
func (l tlsListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tlsConn{Conn: conn, portal: l.portal}, nil
}

// tlsConn is a connection on which a TLS handshake should come.
type tlsConn struct {
	net.Conn
	portal *Portal
	begun  bool
}

// handshake is the first byte of a TLS connection, the type of the handshake's record (RFC 8446, 5.1).
const handshake = 22

// Read implements net.Conn. If the first byte is none of TLS, it serves the HTTP request, and the connection ends.
func (c *tlsConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n == 0 || c.begun {
		return n, err
	}
	c.begun = true
	if b[0] == handshake {
		return n, err
	}
	r, unreadable := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(b[:n]), c.Conn)))
	if unreadable != nil {
		return n, err // neither TLS nor HTTP/1, so the server ends the connection
	}
	c.serve(r)
	return 0, io.EOF
}

// serve answers one request and asks the client to close the connection.
func (c *tlsConn) serve(r *http.Request) {
	out := &recorder{header: http.Header{}, done: make(chan struct{})}
	out.serve(c.portal, r.WithContext(c.portal.ctx))
	response, err := out.response(r) //nolint:bodyclose // It is in memory.
	if err != nil {
		return // a fault cuts the connection
	}
	response.Close = true
	_ = response.Write(c.Conn) // the caller may have gone
}
