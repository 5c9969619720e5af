// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"strings"
	"testing"
)

// TestPortalURL checks that no URL is accepted to which the password would travel in plain text, and that the error does not repeat the URL,
// which may have a password.
func TestPortalURL(t *testing.T) {
	for given, want := range map[string]string{
		"https://portal.example/api":       "https://portal.example/api",
		" https://portal.example/api//\n":  "https://portal.example/api",
		"https://portal.example:8443":      "https://portal.example:8443",
		"http://portal.example/api":        "",
		"HTTP://portal.example":            "",
		"portal.example/api":               "",
		"https:///api":                     "",
		"https://me:canary@portal.example": "",
		"https://portal.example/%":         "",
	} {
		got, err := portalAt(given)
		if got != want || (err == nil) != (want != "") || err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %q, %v", given, got, err)
		}
	}
}

// TestSecretsDoNotPrint checks that no printed user shows a secret.
func TestSecretsDoNotPrint(t *testing.T) {
	u := &user{email: "e", password: conceal("canary"), seed: conceal("canary"), token: conceal("canary")}
	shown := &answer{status: 400, raw: []byte(`{"error":{"message":"canary"}}`), hide: (&site{users: map[role]*user{anyone: u}}).hide}
	for _, text := range append(printed(u, *u, u.password), shown.shown()) {
		if strings.Contains(text, "canary") {
			t.Error(text)
		}
	}
}

func printed(values ...any) (out []string) {
	for _, value := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			out = append(out, fmt.Sprintf(verb, value))
		}
	}
	return out
}
