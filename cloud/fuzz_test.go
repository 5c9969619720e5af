// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// presentable reports whether text from the portal can be shown in a terminal and a condition.
func presentable(text string, limit int) bool {
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) > limit {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || !unicode.IsPrint(r) })
}

func checkError(t *testing.T, e *Error) {
	t.Helper()
	for _, text := range []string{string(e.Code), e.Field, e.RequestID} {
		if !presentable(text, maxName) {
			t.Errorf("%q is not presentable", text)
		}
	}
	if !presentable(e.Message, maxMessage) {
		t.Errorf("message %q is not presentable", e.Message)
	}
	which(t, e)
}

// FuzzJob checks that the parts of a job that is decoded from any bytes agree with each other.
func FuzzJob(f *testing.F) {
	for _, test := range endpoints {
		for _, body := range test.bodies {
			f.Add([]byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		job, ok := parseJob(body, nil)
		if !ok {
			if job.ID != "" || job.Done() {
				t.Errorf("an unreadable job is %+v", job)
			}
			return
		}
		if !json.Valid(body) {
			t.Error("a job was decoded from invalid JSON")
		}
		if job.Failed() != (job.Error != nil) {
			t.Errorf("failed %v, error %v", job.Failed(), job.Error)
		}
		if job.Error != nil {
			checkError(t, job.Error)
			if job.Error.Error() == "" {
				t.Error("the error of a failed job has no text")
			}
		}
		if id, ok := job.CreatedID("", ""); ok != (id != "") {
			t.Errorf("result id %q, %v", id, ok)
		}
	})
}

// FuzzError checks that an error that is decoded from any bytes is presentable, contains no secret and has exactly one class.
func FuzzError(f *testing.F) {
	f.Add(422, []byte(`{"error":{"code":"QUOTA_EXCEEDED","message":"too many","field":"size","requestId":"r"}}`))
	f.Add(500, []byte(`{"error":"RESOURCE_BUSY: x"}`))
	f.Add(500, []byte(`{"error":{"code":"QUOTA_EXCEEDED"}}`))
	f.Add(502, []byte("<html>"))
	f.Add(400, []byte("{\"error\":{\"code\":\"A\",\"message\":\"\xff\u202e\\u0000 s3cr3t\"}}"))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		const secret = "s3cr3t"
		c := &call{route: routeCreateCluster, hidden: []string{secret}, sent: true}
		e := refused(c, &answer{status: status, header: http.Header{}, body: body})
		checkError(t, e)
		if strings.Contains(e.Error(), secret) {
			t.Errorf("%v", e)
		}
		if _, listed := kindOfCode[e.Code]; status == 500 && !listed && !IsUnknownOutcome(e) { // a listed code overrides the status
			t.Error("a create that failed with 500 and without a listed code has a known outcome")
		}
		if status == 429 && IsUnknownOutcome(e) {
			t.Error("a create that was rate limited has an unknown outcome")
		}
	})
}

// FuzzToken checks that a token that is decoded from any bytes fits in a header and has a sensible schedule.
func FuzzToken(f *testing.F) {
	f.Add([]byte(`{"token":"a.b.c"}`))
	f.Add([]byte(`{"data":{"access_token":"eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjF9.x"}}`))
	f.Add([]byte(`{"jwt":"eyJhbGciOiJub25lIn0.eyJleHAiOjFlMzAwLCJpYXQiOi0xZTMwMH0."}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		token, shape := tokenIn(body, "")
		if (shape != "") != (token != "") {
			t.Errorf("token %q, shape %q", token, shape)
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			t.Errorf("token %q does not fit in a header", token)
		}
		now := time.Now()
		for _, token := range []string{token, string(bytes.TrimSpace(body))} {
			g := schedule(token, Login{}, now)
			if g.refreshAt.Before(now.Add(minRefresh)) || g.refreshAt.After(now.Add(7*time.Hour)) {
				t.Errorf("refreshed at %v", g.refreshAt.Sub(now))
			}
			if g.expiresAt.Before(now) || g.expiresAt.After(now.Add(tokenLifetime)) {
				t.Errorf("expires at %v", g.expiresAt.Sub(now))
			}
		}
	})
}
