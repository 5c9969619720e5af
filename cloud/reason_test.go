// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
)

// What went wrong on the way is said in the same words each time, and told from what may have reached the portal.
func TestReasons(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	read := func(err error) error { return &net.OpError{Op: "read", Net: "tcp", Err: err} }
	for _, test := range []struct {
		err    error
		want   string
		before bool
	}{
		{context.Canceled, "the call was cancelled", false},
		{context.DeadlineExceeded, "the portal did not answer in time", false},
		{errReadTimeout, "the portal did not answer in time", false},
		{errTooLarge, "the portal's answer is too large", false},
		{dial(syscall.ECONNREFUSED), "the portal refused the connection", true},
		{dial(&net.DNSError{IsNotFound: true}), "the portal's host name cannot be resolved", true},
		{dial(&net.DNSError{IsTimeout: true}), "the portal's host name cannot be resolved", true},
		{dial(timeout{}), "the portal did not answer in time", true},
		{dial(errors.New("no route to host")), "the portal cannot be reached", true},
		{errProxyCredentials, "the proxy asks for credentials", false},
		{read(syscall.ECONNRESET), "the connection was lost before the answer was complete", false},
		{io.EOF, "the connection was lost before the answer was complete", false},
		{io.ErrUnexpectedEOF, "the connection was lost before the answer was complete", false},
		{tls.RecordHeaderError{Msg: "x"}, "the server does not speak TLS", false},
		{x509.UnknownAuthorityError{}, "the portal's certificate is not signed by a trusted authority", true},
		{x509.HostnameError{Certificate: &x509.Certificate{}}, "the portal's certificate is for another host name", true},
		{x509.CertificateInvalidError{Reason: x509.Expired}, "the portal's certificate has expired or is not yet valid", true},
		{x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}, "the portal's certificate is not signed by a trusted authority", true},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
			"the portal's certificate is not signed by a trusted authority", true},
	} {
		err := fmt.Errorf("round trip: %w", test.err)
		if got := reason(err); got != test.want {
			t.Errorf("%v is %q, want %q", test.err, got, test.want)
		}
		if got := beforeWriting(err); got != test.before {
			t.Errorf("%v comes before writing: %v", test.err, got)
		}
	}
}

type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }
