// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"fmt"
	"net/http"
	"time"
)

// The error codes of the specification (Errors), which calls them the common ones.
const (
	CodeInvalidParameter     = "INVALID_PARAMETER"
	CodeInvalidToken         = "INVALID_TOKEN"
	CodeMFARequired          = "MFA_REQUIRED"
	CodeResourceNotFound     = "RESOURCE_NOT_FOUND"
	CodeResourceBusy         = "RESOURCE_BUSY"
	CodeQuotaExceeded        = "QUOTA_EXCEEDED"
	CodeInsufficientCapacity = "INSUFFICIENT_CAPACITY"
	CodeRateLimited          = "RATE_LIMITED"
	CodeOperationNotAllowed  = "OPERATION_NOT_ALLOWED"
)

// Codes of our own choice, for refusals that no common code fits. A client falls back to their status.
const (
	CodeInvalidCredentials = "INVALID_CREDENTIALS" // 401: login with a wrong e-mail or password
	CodeForbidden          = "FORBIDDEN"           // 403: the user's role does not suffice
	CodePaymentRequired    = "PAYMENT_REQUIRED"    // 402: the account has no credit
	CodeInternalError      = "INTERNAL_ERROR"      // 500
	CodeUnavailable        = "SERVICE_UNAVAILABLE" // 503
)

// defaultStatus is the HTTP status that goes with a code unless a rule or Shapes.CodeStatus says otherwise. The
// specification leaves the pairing open. Unknown codes are server errors.
func defaultStatus(code string) int {
	switch code {
	case CodeInvalidParameter:
		return http.StatusBadRequest
	case CodeInvalidToken, CodeInvalidCredentials:
		return http.StatusUnauthorized
	case CodePaymentRequired:
		return http.StatusPaymentRequired
	case CodeMFARequired, CodeForbidden:
		return http.StatusForbidden
	case CodeResourceNotFound:
		return http.StatusNotFound
	case CodeResourceBusy, CodeOperationNotAllowed:
		return http.StatusConflict
	case CodeQuotaExceeded:
		return http.StatusUnprocessableEntity
	case CodeRateLimited:
		return http.StatusTooManyRequests
	case CodeInsufficientCapacity, CodeUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// defaultCode is the code that goes with a status when a fault names only the status.
func defaultCode(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return CodeInvalidToken
	case http.StatusPaymentRequired:
		return CodePaymentRequired
	case http.StatusForbidden:
		return CodeForbidden
	case http.StatusNotFound:
		return CodeResourceNotFound
	case http.StatusConflict:
		return CodeOperationNotAllowed
	case http.StatusUnprocessableEntity:
		return CodeQuotaExceeded
	case http.StatusTooManyRequests:
		return CodeRateLimited
	case http.StatusServiceUnavailable:
		return CodeUnavailable
	}
	if status < 500 {
		return CodeInvalidParameter
	}
	return CodeInternalError
}

// refusal is why a request was not served.
type refusal struct {
	code      string
	message   string
	field     string
	status    int    // 0: the status that goes with the code
	violation bool   // the request breaks the specification, rather than a rule of the portal
	allow     string // the methods that the path knows, if another one was used
	late      time.Duration
}

func (r *refusal) Error() string { return r.code + ": " + r.message }

func refuse(code, format string, args ...any) *refusal {
	return &refusal{code: code, message: fmt.Sprintf(format, args...)}
}

// invalid refuses the value of a field.
func invalid(field, format string, args ...any) *refusal {
	return &refusal{code: CodeInvalidParameter, field: field, message: fmt.Sprintf(format, args...)}
}

// specViolation refuses a request that the specification does not know.
func specViolation(field, format string, args ...any) *refusal {
	r := invalid(field, format, args...)
	r.violation = true
	return r
}

func notFound(kind, id string) *refusal {
	return refuse(CodeResourceNotFound, "there is no %s %q in this account", kind, id)
}

// as sets another status than the code's default, if the specification's status table asks for it.
func (r *refusal) as(status int) *refusal {
	r.status = status
	return r
}

// wireError is the documented shape of every error (specification, Errors).
type wireError struct {
	Error struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		Field     string `json:"field,omitempty"`
		RequestID string `json:"requestId"`
	} `json:"error"`
}

func (r *refusal) answer(shapes *Shapes, requestID string) answer {
	status := r.status
	if paired := shapes.CodeStatus[r.code]; paired != 0 {
		status = paired
	}
	if status == 0 {
		status = defaultStatus(r.code)
	}
	var body wireError
	body.Error.Code = r.code
	body.Error.Message = r.message
	body.Error.Field = r.field
	body.Error.RequestID = requestID
	return answer{status: status, body: body, code: r.code, violation: violationOf(r), allow: r.allow, late: r.late}
}

func violationOf(r *refusal) string {
	if !r.violation {
		return ""
	}
	return r.message
}
