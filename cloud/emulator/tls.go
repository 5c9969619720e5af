// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// authority is the portal's own certificate authority, made when it is first needed.
type authority struct {
	once sync.Once
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pem  []byte
	err  error
}

// headerTimeout is how long a client may take to say what it wants.
const headerTimeout = 10 * time.Second

// inProcessTLS marks requests that came through Transport, to distinguish them from plain HTTP.
var inProcessTLS = &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true}

func (a *authority) make() error {
	a.once.Do(func() {
		a.key, a.err = ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
		if a.err != nil {
			return
		}
		template := certificate("Portal emulator CA", 10*365*24*time.Hour)
		template.IsCA, template.BasicConstraintsValid = true, true
		template.KeyUsage = x509.KeyUsageCertSign
		var der []byte
		if der, a.err = x509.CreateCertificate(crand.Reader, template, template, a.key.Public(), a.key); a.err != nil {
			return
		}
		a.cert, a.err = x509.ParseCertificate(der)
		a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	})
	return a.err
}

// serverCertificate is for the hosts by which the portal is reached.
func (a *authority) serverCertificate(hosts []string) (tls.Certificate, error) {
	if err := a.make(); err != nil {
		return tls.Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := certificate("Portal emulator", 365*24*time.Hour)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if host != "" {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(crand.Reader, template, a.cert, key.Public(), a.key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

func certificate(name string, lifetime time.Duration) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetUint64(randomUint64()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(lifetime), KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

// CAPEM is the certificate that clients have to trust.
func (p *Portal) CAPEM() []byte {
	if err := p.tls.make(); err != nil {
		panic("a key and a certificate can always be made: " + err.Error())
	}
	return p.tls.pem
}

// Listen serves the API on a TCP address, such as 127.0.0.1:0, with TLS, in the background until Close. A plain HTTP
// request on it gets 400 in the documented shape.
func (p *Portal) Listen(addr string) error {
	listener, err := new(net.ListenConfig).Listen(p.ctx, "tcp", addr)
	if err != nil {
		return err
	}
	host, port, _ := net.SplitHostPort(listener.Addr().String()) // a listener's own address is well formed
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	cert, err := p.tls.serverCertificate(append([]string{host, "localhost", "127.0.0.1", "::1"}, p.opts.Hosts...))
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	server := &http.Server{Handler: p, TLSConfig: config, ReadHeaderTimeout: headerTimeout, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(!p.opts.HTTP1)
	if err := p.serve(server, listener, func() error { return server.ServeTLS(tlsListener{listener, p}, "", "") }); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.url = "https://" + net.JoinHostPort(host, port) + p.opts.BasePath
	return nil
}

// Serve is Listen until the context ends. The caller still calls Close.
func (p *Portal) Serve(ctx context.Context, addr string) error {
	if err := p.Listen(addr); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-p.ctx.Done():
	}
	return nil
}

// URL returns the base URL of the API. Before Listen, only Transport can reach it.
func (p *Portal) URL() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.url == "" {
		return "https://portal.example" + p.opts.BasePath
	}
	return p.url
}

// serve runs a server that ends with the portal.
func (p *Portal) serve(server *http.Server, listener net.Listener, run func() error) error {
	server.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail are their client's concern
	if !p.startWork() {
		return errors.Join(errors.New("the portal is closed"), listener.Close())
	}
	p.mu.Lock()
	p.servers = append(p.servers, server)
	p.mu.Unlock()
	go func() {
		defer p.wg.Done()
		if err := run(); !errors.Is(err, http.ErrServerClosed) {
			p.record(LogEntry{Object: "portal", To: "no longer listening", Detail: fmt.Sprint(err)})
		}
	}()
	return nil
}

func contentLength(h http.Header) int64 {
	n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil {
		return -1
	}
	return n
}
