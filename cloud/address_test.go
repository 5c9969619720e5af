// SPDX-License-Identifier: Apache-2.0

package cloud

import "testing"

// TestAddress: spellings that lead to one portal are one address, and text that leads nowhere is none.
func TestAddress(t *testing.T) {
	for baseURL, want := range map[string]string{
		"https://portal.test":            "portal.test:443",
		" https://Portal.Test:443/\n":    "portal.test:443",
		"https://portal.test:8443/api//": "portal.test:8443/api",
		"https://portal.test/API":        "portal.test:443/API",
		"":                               "",
		"portal.test":                    "",
		"https:///api":                   "",
		"https://portal.test:port":       "",
		"https://portal.test/%":          "",
	} {
		if got := Address(baseURL); got != want {
			t.Errorf("%q is %q, want %q", baseURL, got, want)
		}
	}
}
