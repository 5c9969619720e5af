// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// refused makes the error of an answer that is not a success. Of the answer to a login, the portal's words are never shown. They may
// repeat the password or the one-time code, in any encoding. If they were left out only then, everyone who knows the portal's usual
// words would learn that the password is one of them.
func refused(c *call, a *answer) *Error {
	e, documented := parseError(a.body, c.secrets())
	if c.route.class == ratelimit.Login {
		e.Message, e.Field = "", ""
	}
	e.Endpoint = c.route.String()
	e.Status = a.status
	e.documented = documented
	switch {
	case a.status == http.StatusProxyAuthRequired:
		e.Message = proxyReason
	case e.Message == "":
		e.Message = http.StatusText(a.status)
	}
	e.unknown = unknownOutcome(c.route.mutating, c.sent, a.status, e.Code, documented)
	if wait, ok := ratelimit.RetryAfter(a.header, a.at, isRateLimited(a)); ok {
		e.PortalRetryAt = a.at.Add(wait)
		e.RetryAt = e.PortalRetryAt
	}
	return e
}

// unreadable makes the error of a success whose body lacks what it must say. If the call is mutating, the portal has executed it or
// will, under an id that is not known.
func unreadable(c *call, a *answer, what string) *Error {
	return &Error{
		Endpoint: c.route.String(),
		Status:   a.status,
		Message:  "the portal's answer cannot be read: " + what,
		kind:     kindUnavailable,
		unknown:  c.route.mutating,
	}
}

// unanswered makes the error of a request without an answer.
func unanswered(c *call, cause error) *Error {
	kind := kindUnavailable
	if errors.Is(cause, errHostRefused) {
		kind = kindHostRefused
	}
	return &Error{
		Endpoint: c.route.String(),
		Message:  reason(cause),
		kind:     kind,
		unknown:  unknownOutcome(c.route.mutating, c.sent, 0, "", false),
		cause:    cause,
	}
}

// unknownOutcome decides whether a mutating request may have been executed although no answer says so. There are no
// idempotency keys (specification, "Limits", rule 4), so a wrong "no" here creates a second cluster.
// These are definite refusals:
//
//   - nothing was written,
//   - 401, 407 and 429, which are sent before any work,
//   - a listed code in the documented body with any status, because the specification does not show which status goes with it,
//   - any other 4xx or 503 with the documented body, which a proxy would not produce.
func unknownOutcome(mutating, sent bool, status int, code Code, documented bool) bool {
	_, listed := kindOfCode[code]
	switch {
	case !mutating, !sent:
		return false
	case status == http.StatusUnauthorized, status == http.StatusProxyAuthRequired, status == http.StatusTooManyRequests:
		return false
	case documented && listed:
		return false
	case status >= 400 && status < 500, status == http.StatusServiceUnavailable:
		return !documented
	}
	return true
}

// parseError reads the error shape, and reports whether it was the documented one: an object with a code.
// Anything else, HTML of a proxy for example, gives an empty Error.
func parseError(body []byte, secrets []string) (*Error, bool) {
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &outer) != nil {
		return &Error{}, false
	}
	e := parseReason(outer.Error, secrets)
	return e, e.Code != "" && isObject(outer.Error)
}

// parseReason reads the value of an error key: the documented object, or a string, which is the message.
func parseReason(raw json.RawMessage, secrets []string) *Error {
	var b struct {
		Code      jsonText `json:"code"`
		Message   jsonText `json:"message"`
		Field     jsonText `json:"field"`
		RequestID jsonText `json:"requestId"`
	}
	if isObject(raw) {
		_ = json.Unmarshal(raw, &b) // jsonText fields take any value, so an object always fits
	} else {
		var message jsonText
		_ = json.Unmarshal(raw, &message)
		b.Code, b.Message = splitCode(string(message))
	}
	return &Error{
		Code:      cleanCode(string(b.Code), secrets),
		Message:   clean(string(b.Message), maxMessage, secrets),
		Field:     clean(string(b.Field), maxName, secrets),
		RequestID: clean(string(b.RequestID), maxName, secrets),
	}
}

// splitCode finds a listed code at the start of a plain string, "QUOTA_EXCEEDED: too many clusters" for example.
func splitCode(message string) (code, rest jsonText) {
	for c := range kindOfCode {
		if message == string(c) {
			return jsonText(c), ""
		}
		if rest, ok := strings.CutPrefix(message, string(c)+": "); ok {
			return jsonText(c), jsonText(rest)
		}
	}
	return "", jsonText(message)
}

// waitError is the error of a call that must wait for the rate limit. Nothing was sent.
func waitError(until time.Time) *Error {
	return &Error{
		Message: "waiting for the rate limit of the portal account",
		RetryAt: until,
		kind:    kindRateLimited,
	}
}

const (
	proxyReason   = "the proxy asks for credentials"
	hostRefused   = "names a host that may not be connected to: a loopback, link-local or metadata address"
	hostNotListed = "names a host that is not one of the portals allowed here"
)

// errHostRefused is the answer of Hosts to an address. Nothing has been sent.
var errHostRefused = errors.New(hostRefused)

// errProxyCredentials is a proxy's 407. Nothing has reached the portal.
var errProxyCredentials = errors.New(proxyReason)

// isBeforeWriting reports whether a failure belongs to making the connection.
func isBeforeWriting(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" || isCertificate(err)
}

func isCertificate(err error) bool {
	return isA[*tls.CertificateVerificationError](err) || isA[x509.UnknownAuthorityError](err) ||
		isA[x509.HostnameError](err) || isA[x509.CertificateInvalidError](err)
}

// reason returns why there was no answer. The text is the same for the same cause: net's own text contains ports of this machine and
// alternates between the portal's addresses.
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
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case isA[x509.HostnameError](err):
		return "the portal's certificate is for another host name"
	case ok && invalid.Reason == x509.Expired:
		return "the portal's certificate has expired or is not yet valid"
	}
	return "the portal's certificate is not signed by a trusted authority"
}

func networkReason(err error) string {
	network, ok := errors.AsType[net.Error](err)
	switch {
	case isA[*net.DNSError](err):
		return "the portal's host name cannot be resolved"
	case isA[tls.RecordHeaderError](err):
		return "the server does not speak TLS"
	case ok && network.Timeout():
		return "the portal did not answer in time"
	}
	return "the portal cannot be reached"
}
