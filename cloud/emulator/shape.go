// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Shapes chooses among the answers that the specification allows by "not shown". The zero value is the
// default of each field. A client has to understand all of them, and all combinations.
type Shapes struct {
	// OTPTokenField names the field of verify-otp that carries the token. Default: "token".
	OTPTokenField string `json:"otpTokenField,omitempty"`
	// OTPTokenIn names an object around that field. Default: none.
	OTPTokenIn string `json:"otpTokenIn,omitempty"`
	// SendOTPStatus is 200 (default) with an empty object, 202 likewise, or 204.
	SendOTPStatus int `json:"sendOTPStatus,omitempty"`
	// CredentialsCode refuses a wrong e-mail or password. Default: INVALID_CREDENTIALS.
	CredentialsCode string `json:"credentialsCode,omitempty"`
	// CreatedID is where an answer or job result carries a created record. A VPC is always nested, as documented.
	CreatedID IDPlace `json:"createdID,omitempty"`
	// NetworkStatus of POST /networks: 201 (default) with the record, 200 likewise, or 202 with a job.
	NetworkStatus int `json:"networkStatus,omitempty"`
	// VolumeStatus of DELETE /volumes/{volume_id}: 200 (default) or 204 when it is done, or 202 with a job.
	VolumeStatus int `json:"volumeStatus,omitempty"`
	// JobError is the form of a failed job's error. Default: JobErrorObject.
	JobError JobErrorShape `json:"jobError,omitempty"`
	// BareLists answers all lists as arrays, also those whose key is documented: no legal portal does that.
	BareLists bool `json:"bareLists,omitempty"`
	// InstancesKey is the key of the list of instances, whose form is not shown. "-" is a bare list. Default: instances.
	InstancesKey string `json:"instancesKey,omitempty"`
	// CodeStatus pairs error codes with other HTTP statuses than defaultStatus does.
	CodeStatus map[string]int `json:"codeStatus,omitempty"`
	// LookupStatus answers GET /kubernetes-clusters, which the specification does not know: 200, with something that is
	// no list, or a refusal. Default: 405, as for any unknown method.
	LookupStatus int `json:"lookupStatus,omitempty"`
	// LookupPage makes that answer a page instead of JSON.
	LookupPage bool `json:"lookupPage,omitempty"`
	// ExtraFields adds members that the specification does not name to every object that is an answer.
	ExtraFields bool `json:"extraFields,omitempty"`
	// NumbersAsText writes all numbers in answers as strings, as in {"size": "3"}.
	NumbersAsText bool `json:"numbersAsText,omitempty"`
	// BareVersions lists versions without the leading v.
	BareVersions bool `json:"bareVersions,omitempty"`
	// VersionBuild is appended to listed versions as build metadata: "portal.1" makes v1.36.3+portal.1.
	VersionBuild string `json:"versionBuild,omitempty"`
	// TokensWithoutExp issues tokens without an expiry time.
	TokensWithoutExp bool `json:"tokensWithoutExp,omitempty"`
	// RetryAfterDate writes Retry-After as an HTTP date instead of seconds.
	RetryAfterDate bool `json:"retryAfterDate,omitempty"`
	// QuietLimits sends the X-RateLimit headers with a 429 only, as the specification documents them.
	QuietLimits bool `json:"quietLimits,omitempty"`
	// ResetSeconds has X-RateLimit-Reset name the end of a fixed window of that many seconds.
	// Default: the time at which the whole burst is available again.
	ResetSeconds int `json:"resetSeconds,omitempty"`
	// WindowRemaining has X-RateLimit-Remaining count the requests of a fixed window, of a minute or of ResetSeconds. The burst bounds
	// requests as ever. Default: what is left of the burst.
	WindowRemaining bool `json:"windowRemaining,omitempty"`
}

// IDPlace is where an answer carries a created record.
type IDPlace string

// The places of a created record.
const (
	IDNested IDPlace = "nested" // {"network": {"id": …}}, the default
	IDFlat   IDPlace = "flat"   // {"id": …}
	IDBeside IDPlace = "beside" // {"network": {"id": …}, "owner": {"id": …}}
	IDDeep   IDPlace = "deep"   // {"resource": {"network": {"id": …}, "owner": {"id": …}}}
)

// JobErrorShape is the form of a failed job's error.
type JobErrorShape string

// The forms of a failed job's error.
const (
	JobErrorObject JobErrorShape = "object" // {"code": …, "message": …}
	JobErrorString JobErrorShape = "string" // "CODE: message"
	JobErrorWhole  JobErrorShape = "whole"  // {"error": {"code": …, "message": …}}, as in a refusal
)

var (
	idPlaces       = []IDPlace{IDNested, IDFlat, IDBeside, IDDeep}
	jobErrorShapes = []JobErrorShape{JobErrorObject, JobErrorString, JobErrorWhole}
)

func (s *Shapes) setDefaults() {
	orElse(&s.OTPTokenField, "token")
	orElse(&s.SendOTPStatus, http.StatusOK)
	orElse(&s.CredentialsCode, CodeInvalidCredentials)
	orElse(&s.CreatedID, IDNested)
	orElse(&s.NetworkStatus, http.StatusCreated)
	orElse(&s.VolumeStatus, http.StatusOK)
	orElse(&s.JobError, JobErrorObject)
	orElse(&s.InstancesKey, "instances")
}

func (s *Shapes) validate() error {
	for name, problem := range map[string]bool{
		fmt.Sprintf("createdID %q: want one of %q", s.CreatedID, idPlaces):            !slices.Contains(idPlaces, s.CreatedID),
		fmt.Sprintf("jobError %q: want one of %q", s.JobError, jobErrorShapes):        !slices.Contains(jobErrorShapes, s.JobError),
		fmt.Sprintf("networkStatus %d: want 200, 201 or 202", s.NetworkStatus):        !slices.Contains([]int{200, 201, 202}, s.NetworkStatus),
		fmt.Sprintf("volumeStatus %d: want 200, 202 or 204", s.VolumeStatus):          !slices.Contains([]int{200, 202, 204}, s.VolumeStatus),
		fmt.Sprintf("sendOTPStatus %d: want 200, 202 or 204", s.SendOTPStatus):        !slices.Contains([]int{200, 202, 204}, s.SendOTPStatus),
		fmt.Sprintf("lookupStatus %d: want 200 or an error's", s.LookupStatus):        s.LookupStatus != 0 && s.LookupStatus != 200 && !isErrorStatus(s.LookupStatus),
		fmt.Sprintf("resetSeconds %d: want a positive number", s.ResetSeconds):        s.ResetSeconds < 0,
		fmt.Sprintf("lookupPage needs lookupStatus, which is %d", s.LookupStatus):     s.LookupPage && s.LookupStatus == 0,
		fmt.Sprintf("otpTokenIn %q must not be the field itself", s.OTPTokenIn):       s.OTPTokenIn == s.OTPTokenField,
		fmt.Sprintf("credentialsCode %q: want a word in capitals", s.CredentialsCode): strings.ToUpper(s.CredentialsCode) != s.CredentialsCode,
	} {
		if problem {
			return fmt.Errorf("shape %s", name)
		}
	}
	for code, status := range s.CodeStatus {
		if !isErrorStatus(status) {
			return fmt.Errorf("shape codeStatus %s: %d is not an error status", code, status)
		}
	}
	return nil
}

func isErrorStatus(status int) bool { return status >= 400 && status <= 599 }

// created wraps a created record of a kind.
func (s *Shapes) created(kind string, record any) any {
	owner := map[string]string{"id": "owner-1"}
	switch s.CreatedID {
	case IDFlat:
		return record
	case IDBeside:
		return map[string]any{kind: record, "owner": owner}
	case IDDeep:
		return map[string]any{"resource": map[string]any{kind: record, "owner": owner}}
	}
	return map[string]any{kind: record}
}

// list wraps records under their key.
func (s *Shapes) list(key string, records any) any {
	if s.BareLists {
		return records
	}
	return map[string]any{key: records}
}

// instances wraps the list of instances.
func (s *Shapes) instances(records any) any {
	if s.InstancesKey == "-" {
		return records
	}
	return s.list(s.InstancesKey, records)
}

// verified wraps the full-access token that a one-time code is exchanged for.
func (s *Shapes) verified(token string) any {
	inner := map[string]any{s.OTPTokenField: token}
	if s.OTPTokenIn == "" {
		return inner
	}
	return map[string]any{s.OTPTokenIn: inner}
}

// jobError sets the form of a failed job's error.
func (s *Shapes) jobError(e *jobError) any {
	switch s.JobError {
	case JobErrorString:
		return e.Error()
	case JobErrorWhole:
		return map[string]any{"error": e}
	}
	return e
}

// semanticVersion returns a version as the list shows it. The emulator stores v1.36.3.
func (s *Shapes) semanticVersion(version string) string {
	if s.BareVersions {
		version = strings.TrimPrefix(version, "v")
	}
	if s.VersionBuild != "" {
		version += "+" + s.VersionBuild
	}
	return version
}
