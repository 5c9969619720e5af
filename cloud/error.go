// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Code is the stable, machine-readable error code of the portal (specification, "Error codes"). Codes that the
// specification does not list are kept as they came.
type Code string

// The codes that the specification lists.
const (
	CodeInvalidParameter     Code = "INVALID_PARAMETER"
	CodeInvalidToken         Code = "INVALID_TOKEN"
	CodeMFARequired          Code = "MFA_REQUIRED"
	CodeResourceNotFound     Code = "RESOURCE_NOT_FOUND"
	CodeResourceBusy         Code = "RESOURCE_BUSY"
	CodeQuotaExceeded        Code = "QUOTA_EXCEEDED"
	CodeInsufficientCapacity Code = "INSUFFICIENT_CAPACITY"
	CodeRateLimited          Code = "RATE_LIMITED"
	CodeOperationNotAllowed  Code = "OPERATION_NOT_ALLOWED"
)

// Error is the only error type of this package: a refusal by the portal, a failed job's reason, a connection that
// did not work, a wait for the rate limit, or bad input that was never sent. The predicates say what to do about it (IsBusy,
// IsUnknownOutcome, ...). Its fields are cleaned of control characters and bounded in length.
type Error struct {
	// Endpoint is the route that was called, such as "POST /kubernetes-clusters". Empty for bad input and jobs.
	Endpoint string
	// Status is the HTTP status. 0 if there was no answer.
	Status int
	// Code is the portal's error code. Empty if the answer had none.
	Code Code
	// Message is for people and may change between versions of the portal.
	Message string
	// Field names what is invalid: a field of the request, or of Config.
	Field string
	// RequestID identifies the request for the portal's support. Error does not include it, so that equal causes give equal text.
	RequestID string
	// RetryAt is when to try again. Zero if it is not known.
	RetryAt time.Time
	// PortalRetryAt is RetryAt if the portal's answer named it, which the client's own backoff may exceed. Else it is zero.
	PortalRetryAt time.Time

	kind    kind  // zero: derived from Code and Status
	unknown bool  // the request was written and may have been executed
	cause   error // of a connection that did not work

	documented bool // the answer's body had the documented shape
}

// Error says what failed in words that do not change between two failures of the same cause: no times, no request
// ids, no addresses of this machine.
func (e *Error) Error() string {
	refusal, outcome := string(e.Code), ""
	if refusal == "" && e.Status != 0 {
		refusal = fmt.Sprintf("status %d", e.Status)
	}
	if e.unknown {
		outcome = "whether the portal carried it out is not known"
	}
	parts := []string{e.Endpoint, refusal, e.Field, e.Message, outcome}
	return strings.Join(filter(parts, func(part string) bool { return part != "" }), ": ")
}

// Unwrap returns the cause below the portal's protocol, such as context.Canceled.
func (e *Error) Unwrap() error { return e.cause }

// kind is what an error asks its reader to do. Every error has exactly one.
type kind int

const (
	kindNone kind = iota
	kindBusy
	kindNotAllowed
	kindQuota
	kindCapacity
	kindInvalid
	kindNotFound
	kindMFARequired
	kindUnauthorized
	kindForbidden
	kindRateLimited
	kindUnavailable
	kindUnsupported
	kindNotPortal
	kindHostRefused
)

var kindOfCode = map[Code]kind{
	CodeInvalidParameter:     kindInvalid,
	CodeInvalidToken:         kindUnauthorized,
	CodeMFARequired:          kindMFARequired,
	CodeResourceNotFound:     kindNotFound,
	CodeResourceBusy:         kindBusy,
	CodeQuotaExceeded:        kindQuota,
	CodeInsufficientCapacity: kindCapacity,
	CodeRateLimited:          kindRateLimited,
	CodeOperationNotAllowed:  kindNotAllowed,
}

var kindOfStatus = map[int]kind{
	401: kindUnauthorized,
	403: kindForbidden,
	404: kindNotFound,
	405: kindUnsupported,
	407: kindUnavailable, // of a proxy
	408: kindUnavailable,
	409: kindNotAllowed,
	429: kindRateLimited,
	501: kindUnsupported,
}

// classify returns the kind. A listed code decides for any status, because the specification does not show which code comes with
// which status. Without a listed code, the status decides.
func classify(code Code, status int) kind {
	if k, ok := kindOfCode[code]; ok {
		return k
	}
	if k, ok := kindOfStatus[status]; ok {
		return k
	}
	switch {
	case status >= 500:
		return kindUnavailable
	case status >= 300:
		return kindInvalid // 400 and 422 by the specification. A redirect is never followed and means a wrong base URL
	}
	return kindNone
}

// hasKind reports whether err is a portal error that asks for k. It returns false for an unknown outcome, because callers
// that retry "unavailable" must not retry a create that may have been executed.
func hasKind(err error, k kind) bool {
	e := asError(err)
	if e == nil || e.unknown {
		return false
	}
	return e.kindOf() == k
}

// kindOf returns the kind of a refusal. A redirect or a 4xx that is not the portal's proves nothing: a load balancer sends 404 in front
// of a portal that restarts, and a proxy sends its own pages with 302, 401 or 403. It is like their 502. Two statuses say the same
// from a proxy: 405 that nothing serves the endpoint, and 429 that requests have to slow down.
func (e *Error) kindOf() kind {
	switch {
	case e.kind != kindNone:
		return e.kind
	case e.Status == http.StatusMethodNotAllowed, e.Status == http.StatusTooManyRequests:
	case e.Status >= 300 && e.Status < 500 && !e.isPortals():
		return kindUnavailable
	}
	return classify(e.Code, e.Status)
}

// isPortals reports whether the portal itself sent the refusal. Only the documented body has a code of any kind, and only a portal writes
// a listed code into a text.
func (e *Error) isPortals() bool { return e.Code != "" }

// asError returns the *Error in a chain, or nil.
func asError(err error) *Error {
	e, _ := errors.AsType[*Error](err)
	return e
}

// isA reports whether an error of the type is in a chain.
func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// IsBusy reports whether another operation locks the resource. Try again shortly.
func IsBusy(err error) bool { return hasKind(err, kindBusy) }

// IsNotAllowed reports whether the resource's state forbids the action. Look at the state first.
func IsNotAllowed(err error) bool { return hasKind(err, kindNotAllowed) }

// IsQuota reports whether the request would exceed the account's quota. Ask for less, or for a larger quota.
func IsQuota(err error) bool { return hasKind(err, kindQuota) }

// IsCapacity reports whether the platform has no room at present. Try again later, or in another zone.
func IsCapacity(err error) bool { return hasKind(err, kindCapacity) }

// IsInvalid reports whether the request, or the Config, must be changed. Error.Field names the place if it is known.
func IsInvalid(err error) bool { return hasKind(err, kindInvalid) }

// IsNotFound reports whether the portal answered that the id does not exist, or belongs to another account.
func IsNotFound(err error) bool { return hasKind(err, kindNotFound) }

// IsMFARequired reports whether the account needs a second factor and the Config has no seed for it.
func IsMFARequired(err error) bool { return hasKind(err, kindMFARequired) }

// IsUnauthorized reports whether the portal refused the login, or a fresh token. The credentials must be changed. RetryAt returns
// when the client asks the portal again.
func IsUnauthorized(err error) bool { return hasKind(err, kindUnauthorized) }

// IsCodeRefused reports whether the one-time code was refused. Such an error also is IsUnauthorized.
func IsCodeRefused(err error) bool {
	return IsUnauthorized(err) && asError(err).Endpoint == routeVerifyOTP.String()
}

// IsTokenRefused reports whether the portal let the user in and then refused the token that it had just issued. The
// credentials are right. Such an error also is IsUnauthorized.
func IsTokenRefused(err error) bool {
	e := asError(err)
	return IsUnauthorized(err) && !slices.Contains([]string{"", routeLogin.String(), routeSendOTP.String(), routeVerifyOTP.String()}, e.Endpoint)
}

// IsForbidden reports whether the user lacks the permission.
func IsForbidden(err error) bool { return hasKind(err, kindForbidden) }

// IsRateLimited reports whether the call has to wait for the rate limit until RetryAt. Nothing was executed.
func IsRateLimited(err error) bool { return hasKind(err, kindRateLimited) }

// IsUnavailable reports whether the portal cannot be reached, another server answers in its place, or its answer to a read cannot be
// understood. Try again with backoff.
// A mutating call was not executed.
func IsUnavailable(err error) bool { return hasKind(err, kindUnavailable) }

// IsDocumented reports whether the answer was the error object of the specification, which no proxy or other web server sends.
func IsDocumented(err error) bool {
	e := asError(err)
	return e != nil && e.documented
}

// IsUnsupported reports whether this portal lacks the endpoint.
func IsUnsupported(err error) bool { return hasKind(err, kindUnsupported) }

// IsNotPortal reports whether the server that answered the login does not speak the portal's API. Most likely the base URL lacks a
// path, or is the address of another server. The credentials have not been checked.
func IsNotPortal(err error) bool { return hasKind(err, kindNotPortal) }

// IsGenericRefusal reports whether a login was refused in a way in which any web server may refuse it: without a code of the
// portal's. Such an error also is IsNotPortal, IsUnauthorized or IsRateLimited.
func IsGenericRefusal(err error) bool {
	e := asError(err)
	return IsNotPortal(err) || e != nil && e.Endpoint == routeLogin.String() && e.Status != 0 && e.Code == "" &&
		(IsUnauthorized(err) || IsRateLimited(err))
}

// IsHostRefused reports whether Config.Hosts does not allow the address of the base URL. Nothing was sent.
func IsHostRefused(err error) bool { return hasKind(err, kindHostRefused) }

// IsUntrusted reports whether the portal's certificate could not be verified. Such an error also is IsUnavailable.
func IsUntrusted(err error) bool {
	e := asError(err)
	return e != nil && isCertificate(e.cause)
}

// IsProxyCredentials reports whether a proxy on the way asked for credentials. Such an error also is IsUnavailable.
func IsProxyCredentials(err error) bool {
	e := asError(err)
	return e != nil && (e.Status == http.StatusProxyAuthRequired || errors.Is(e.cause, errProxyCredentials))
}

// IsUnknownOutcome reports whether a mutating request was written and no answer says whether it was executed. All other predicates
// are false for such an error.
func IsUnknownOutcome(err error) bool {
	e := asError(err)
	return e != nil && e.unknown
}

// RetryAt returns the time at which to try again, if the portal or the rate limiter named one.
func RetryAt(err error) (time.Time, bool) {
	e := asError(err)
	if e == nil || e.RetryAt.IsZero() {
		return time.Time{}, false
	}
	return e.RetryAt, true
}

// invalidInput is the error of bad input. Nothing was sent.
func invalidInput(field, message string) *Error {
	return &Error{Field: field, Message: message, kind: kindInvalid}
}
