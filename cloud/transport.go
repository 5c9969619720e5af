// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"
)

// Timeouts of the specification ("Limits"), but for creations.
const (
	connectTimeout = 10 * time.Second
	readTimeout    = 60 * time.Second
	pollTimeout    = 30 * time.Second
	// createTimeout is how long the answer to a creation is waited for. A creation must not be sent again, so giving up leaves it to a person to
	// find out whether something was created. Portals were seen to answer after more than two minutes, and load balancers seldom wait longer
	// than five.
	createTimeout = 5 * time.Minute
)

// CreationTime bounds a call that creates something: two steps of the connection, and the answer. A context for such a call must last longer.
const CreationTime = 2*connectTimeout + createTimeout

// newTransport makes the HTTPS transport. net/http sends a request again by itself when a kept-alive connection
// turns out to be dead, and HTTP/2 does so in more cases. A mutation therefore travels over a fresh HTTP/1.1
// connection of its own: there net/http never sends twice, and a connection that the portal closed while it was idle
// cannot turn a create into an unknown outcome.
func newTransport(roots *x509.CertPool, dial dialFunc, mutations bool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dial,
		TLSHandshakeTimeout: connectTimeout,
		TLSClientConfig: &tls.Config{
			RootCAs:            roots,
			MinVersion:         tls.VersionTLS12,
			ClientSessionCache: tls.NewLRUClientSessionCache(0),
		},
		OnProxyConnectResponse: proxyAnswered,
		Protocols:              protocols,
		DisableKeepAlives:      mutations,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

type dialFunc func(ctx context.Context, network, target string) (net.Conn, error)

// newDial makes the function that connects to the portal, or to a proxy before it. An address that the portal's host resolved to
// is checked after the lookup and before the connection is made. Proxies come from the environment of the process, so their
// addresses are not checked. A proxy decides itself which hosts it connects to.
func newDial(hosts *Hosts, base *url.URL) dialFunc {
	return dialChecked(base, func(address string) error { return hosts.checkAddress(base, address) })
}

// dialChecked has the address that the host of the URL resolved to checked.
func dialChecked(to *url.URL, check func(address string) error) dialFunc {
	direct := &net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}
	checked := *direct
	checked.Control = func(_, address string, _ syscall.RawConn) error { return check(address) }
	return func(ctx context.Context, network, target string) (net.Conn, error) {
		if isDialed(to, target) {
			return checked.DialContext(ctx, network, target)
		}
		return direct.DialContext(ctx, network, target)
	}
}

// proxyAnswered makes an error of its own of a proxy that asks for credentials. net/http handles the other refusals.
func proxyAnswered(_ context.Context, _ *url.URL, _ *http.Request, answer *http.Response) error {
	if answer.StatusCode == http.StatusProxyAuthRequired {
		return errProxyCredentials
	}
	return nil
}
