// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// tap is a transport that records every secret it sees: tokens, one-time codes, kubeconfigs.
type tap struct {
	next http.RoundTripper

	mu   sync.Mutex
	seen map[string][]string // secret → its kind and its forms
}

func newTap(next http.RoundTripper) *tap {
	t := &tap{next: next, seen: map[string][]string{}}
	t.note("the password", password)
	t.note("the TOTP seed", seed)
	return t
}

// RoundTrip implements http.RoundTripper.
func (t *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	t.note("a bearer token", strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	if r.Body != nil {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		t.fields(raw, "password", "otp")
		r.Body = io.NopCloser(bytes.NewReader(raw))
	}
	if token, found := strings.CutPrefix(r.URL.Path, "/reset-password/"); found {
		t.note("a reset token", token)
	}
	response, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	raw, readErr := io.ReadAll(response.Body)
	t.fields(raw, "token", "kubeconfig")
	response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(raw), iotest.ErrReader(cmp.Or(readErr, io.EOF))))
	return response, nil
}

func (t *tap) fields(raw []byte, names ...string) {
	var object map[string]any
	if json.Unmarshal(raw, &object) != nil {
		return
	}
	for _, name := range names {
		text, _ := object[name].(string)
		t.note(name, text)
		if _, token, found := strings.Cut(text, "token: "); found && name == "kubeconfig" {
			token, _, _ = strings.Cut(token, "\n")
			t.note("a kubeconfig's token", token)
		}
	}
}

func (t *tap) note(what, secret string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.seen[secret]; known || secret == "" {
		return
	}
	encoded, _ := json.Marshal(secret) // a string is always JSON
	t.seen[secret] = []string{
		what, secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret)), url.QueryEscape(secret),
		strings.Trim(string(encoded), `"`), strings.Trim(fmt.Sprint([]byte(secret)), "[]"),
	}
}

// leaked returns the names of secrets that a text contains, plain or encoded.
func (t *tap) leaked(text string) (found []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, forms := range t.seen {
		if slices.ContainsFunc(forms[1:], func(form string) bool { return strings.Contains(text, form) }) {
			found = append(found, forms[0])
		}
	}
	return found
}

// printed returns a value in the forms in which careless code might print it.
func printed(value any) map[string]string {
	out := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		out[verb] = fmt.Sprintf(verb, value)
	}
	for name, handler := range map[string]func(io.Writer, *slog.HandlerOptions) slog.Handler{
		"slog text": func(w io.Writer, o *slog.HandlerOptions) slog.Handler { return slog.NewTextHandler(w, o) },
		"slog JSON": func(w io.Writer, o *slog.HandlerOptions) slog.Handler { return slog.NewJSONHandler(w, o) },
	} {
		var b bytes.Buffer
		slog.New(handler(&b, &slog.HandlerOptions{Level: slog.LevelDebug})).Debug("seen", "value", value)
		out[name] = b.String()
	}
	encoded, _ := json.Marshal(value) // a value that is not JSON cannot leak here
	out["JSON"] = string(encoded)
	return out
}

// keeps checks all printed forms of a value.
func (t *tap) keeps(test testing.TB, what string, value any) {
	test.Helper()
	for form, text := range printed(value) {
		if found := t.leaked(text); len(found) > 0 {
			test.Errorf("%s as %s has %v", what, form, found)
		}
	}
}

// keepsRequestLog checks the portal's request log, as data and as text.
func (t *tap) keepsRequestLog(test testing.TB, what string, p *emulator.Portal) {
	test.Helper()
	var text bytes.Buffer
	if err := p.WriteRequestLog(&text); err != nil {
		test.Error(err)
	}
	data, err := json.Marshal(p.RequestLog())
	if err != nil {
		test.Error(err)
	}
	for form, entries := range map[string]string{"text": text.String(), "data": string(data)} {
		if found := t.leaked(entries); len(found) > 0 {
			test.Errorf("%s: the request log as %s has %v", what, form, found)
		}
	}
}

// keepsAdmin checks the answers of the admin listener. The mailbox may show secrets.
func (t *tap) keepsAdmin(test testing.TB, p *emulator.Portal) {
	test.Helper()
	for _, path := range []string{"/request-log", "/request-log?format=text", "/faults", "/clusters", "/jobs", "/volumes"} {
		w := httptest.NewRecorder()
		p.AdminHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
		if found := t.leaked(w.Body.String()); w.Code != http.StatusOK || len(found) > 0 {
			test.Errorf("%s: status %d, has %v", path, w.Code, found)
		}
	}
}

func (t *tap) kinds() map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	kinds := map[string]bool{}
	for _, forms := range t.seen {
		kinds[forms[0]] = true
	}
	return kinds
}
