// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"fmt"
	"net/http"
	"strings"
)

// Shapes chooses among the answers that the specification allows where it says "not shown". The zero value is the
// default of each field. A client has to understand all of them.
type Shapes struct {
	// OTPTokenField names the field of verify-otp that carries the token. Default: "token".
	OTPTokenField string `json:"otpTokenField,omitempty"`
	// CreatedID is where an answer or job result carries a created record: IDNested (default) under the name of its
	// kind, as the specification documents for a VPC, or IDFlat on top. A VPC is always nested.
	CreatedID IDPlace `json:"createdID,omitempty"`
	// NetworkStatus of POST /networks: 201 (default) with the record, 200 likewise, or 202 with a job.
	NetworkStatus int `json:"networkStatus,omitempty"`
	// JobError is a failed job's error: an object with code and message (default), or a string.
	JobError JobErrorShape `json:"jobError,omitempty"`
	// BareLists answers lists as arrays instead of an object with the array under its key.
	BareLists bool `json:"bareLists,omitempty"`
	// CodeStatus pairs error codes with other HTTP statuses than DefaultStatus does.
	CodeStatus map[string]int `json:"codeStatus,omitempty"`
	// BareVersions lists versions without the leading v.
	BareVersions bool `json:"bareVersions,omitempty"`
	// VersionBuild is appended to listed versions as build metadata: "portal.1" makes v1.36.3+portal.1.
	VersionBuild string `json:"versionBuild,omitempty"`
	// TokensWithoutExp issues tokens that do not tell when they end.
	TokensWithoutExp bool `json:"tokensWithoutExp,omitempty"`
	// RetryAfterDate writes Retry-After as an HTTP date instead of seconds.
	RetryAfterDate bool `json:"retryAfterDate,omitempty"`
	// QuietLimits sends the X-RateLimit headers with a 429 only, where the specification documents them.
	QuietLimits bool `json:"quietLimits,omitempty"`
}

// IDPlace is where an answer carries a created record.
type IDPlace string

// The places of a created record.
const (
	IDNested IDPlace = "nested" // {"network": {"id": …}}
	IDFlat   IDPlace = "flat"   // {"id": …}
)

// JobErrorShape is the form of a failed job's error.
type JobErrorShape string

// The forms of a failed job's error.
const (
	JobErrorObject JobErrorShape = "object" // {"code": …, "message": …}
	JobErrorString JobErrorShape = "string" // "CODE: message"
)

func (s *Shapes) setDefaults() {
	orElse(&s.OTPTokenField, "token")
	orElse(&s.CreatedID, IDNested)
	orElse(&s.NetworkStatus, http.StatusCreated)
	orElse(&s.JobError, JobErrorObject)
}

func (s *Shapes) validate() error {
	switch {
	case s.CreatedID != IDNested && s.CreatedID != IDFlat:
		return fmt.Errorf("shape createdID %q: want %q or %q", s.CreatedID, IDNested, IDFlat)
	case s.JobError != JobErrorObject && s.JobError != JobErrorString:
		return fmt.Errorf("shape jobError %q: want %q or %q", s.JobError, JobErrorObject, JobErrorString)
	case s.NetworkStatus < 200 || s.NetworkStatus > 202:
		return fmt.Errorf("shape networkStatus %d: want 200, 201 or 202", s.NetworkStatus)
	}
	for code, status := range s.CodeStatus {
		if status < 400 || status > 599 {
			return fmt.Errorf("shape codeStatus %s: %d is not an error status", code, status)
		}
	}
	return nil
}

// created wraps a created record of a kind.
func (s *Shapes) created(kind string, record any) any {
	if s.CreatedID == IDFlat {
		return record
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

// semanticVersion is a version as the list shows it; v1.36.3 inside.
func (s *Shapes) semanticVersion(version string) string {
	if s.BareVersions {
		version = strings.TrimPrefix(version, "v")
	}
	if s.VersionBuild != "" {
		version += "+" + s.VersionBuild
	}
	return version
}
