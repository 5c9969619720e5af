// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
)

const (
	proxyReason   = "the proxy asks for credentials"
	hostRefused   = "names a host that may not be connected to: a loopback, link-local or metadata address"
	hostNotListed = "names a host that is not one of the portals allowed here"
)

// errHostRefused is the answer of Hosts to an address. Nothing has been sent.
var errHostRefused = errors.New(hostRefused)

// errProxyCredentials is a proxy's 407. Nothing has reached the portal.
var errProxyCredentials = errors.New(proxyReason)

// beforeWriting reports whether a failure belongs to making the connection.
func beforeWriting(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || isCertificate(err)
}

func isCertificate(err error) bool {
	var failed *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &failed) || errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid)
}

// reason says why there was no answer, in words that stay equal while the cause does: net's own text carries ports
// of this machine and alternates between the portal's addresses.
func reason(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "the call was cancelled"
	case errors.Is(err, errReadTimeout), errors.Is(err, context.DeadlineExceeded):
		return "the portal did not answer in time"
	case errors.Is(err, errProxyCredentials):
		return proxyReason
	case errors.Is(err, errHostRefused):
		return "the base URL " + hostRefused
	case errors.Is(err, errTooLarge):
		return "the portal's answer is too large"
	case isCertificate(err):
		return certificateReason(err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the portal refused the connection"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was lost before the answer was complete"
	}
	return networkReason(err)
}

func certificateReason(err error) string {
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &host):
		return "the portal's certificate is for another host name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the portal's certificate has expired or is not yet valid"
	}
	return "the portal's certificate is not signed by a trusted authority"
}

func networkReason(err error) string {
	var dns *net.DNSError
	var record tls.RecordHeaderError
	var network net.Error
	switch {
	case errors.As(err, &dns):
		return "the portal's host name cannot be resolved"
	case errors.As(err, &record):
		return "the server does not speak TLS"
	case errors.As(err, &network) && network.Timeout():
		return "the portal did not answer in time"
	}
	return "the portal cannot be reached"
}
