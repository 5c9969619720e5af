// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// canary has characters that encodings treat differently.
const canary = `Correct-"Horse" & <7> / ü + 9?`

// TestSearch checks that the search finds a secret in every form in which logs contained it, and in those that careless code would write.
func TestSearch(t *testing.T) {
	s := secrets{}
	s.add("the password", canary)
	long := strings.Repeat("kubeconfig ", 30)
	s.add("the kubeconfig", long)
	encoded, err := json.Marshal(map[string]string{"password": canary})
	if err != nil {
		t.Fatal(err)
	}
	inSecret := base64.StdEncoding.EncodeToString([]byte("password: " + canary))
	forms := map[string]string{
		"plain":                      canary,
		"JSON":                       string(encoded),
		"JSON in JSON":               fmt.Sprintf("%q", encoded),
		"%q":                         fmt.Sprintf("%q", canary),
		"%v of bytes":                fmt.Sprintf("%v", []byte(canary)),
		"%#v of bytes":               fmt.Sprintf("%#v", []byte(canary)),
		"%x":                         fmt.Sprintf("id=%x", canary),
		"%x after another digit":     fmt.Sprintf("1%x", canary),
		"a query":                    url.QueryEscape(canary),
		"a path":                     url.PathEscape(canary),
		"base64":                     base64.StdEncoding.EncodeToString([]byte(canary)),
		"base64, second alignment":   base64.StdEncoding.EncodeToString([]byte("x" + canary + "yy")),
		"base64, third alignment":    base64.RawURLEncoding.EncodeToString([]byte("xx" + canary + "y")),
		"base64 after other letters": "value=abc" + base64.StdEncoding.EncodeToString([]byte(canary)),
		"base64 in base64":           base64.StdEncoding.EncodeToString([]byte(inSecret)),
		"a hexdump":                  "body=<\n\t" + strings.ReplaceAll(hex.Dump([]byte("k8s\x00\x0a\x0d"+canary)), "\n", "\n\t") + " >",
		"a hexdump of base64":        hex.Dump([]byte(inSecret)),
		"a hexdump in JSON":          fmt.Sprintf(`{"body":%q}`, hex.Dump([]byte(inSecret))),
		"a hexdump cut off":          hex.Dump([]byte(long))[:400],
		"base64 cut off":             base64.StdEncoding.EncodeToString([]byte(long))[:70],
		"a JSON web token":           "Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtZSJ9",
	}
	for form, text := range forms {
		if found := s.in("I1122 07:00:00 request.go:1] \"Response Body\" " + text + " and more"); len(found) == 0 {
			t.Errorf("not found: %s: %s", form, text)
		}
	}
	for _, text := range []string{
		"", "Authorization: Bearer <masked>", "kubeconfig kubeconfig", hex.Dump([]byte("kubeconfig")), "Correct-Horse", strings.Repeat("Q", 99),
	} {
		if found := s.in(text); len(found) > 0 {
			t.Errorf("%q: %v", text, found)
		}
	}
}
