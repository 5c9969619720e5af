// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
)

// noTransport fails the test when a request is sent.
type noTransport struct{ t *testing.T }

func (n noTransport) RoundTrip(*http.Request) (*http.Response, error) {
	n.t.Error("a request was sent")
	return nil, errors.New("unexpected")
}

func TestNewNamesTheFieldOfBadInput(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Config)
		field  string
	}{
		"plain http":         {func(c *Config) { c.BaseURL = "http://portal.test" }, "baseURL"},
		"no scheme":          {func(c *Config) { c.BaseURL = "portal.test/api" }, "baseURL"},
		"no host":            {func(c *Config) { c.BaseURL = "https:///api" }, "baseURL"},
		"only a port":        {func(c *Config) { c.BaseURL = "https://:443/api" }, "baseURL"},
		"empty URL":          {func(c *Config) { c.BaseURL = "" }, "baseURL"},
		"not a URL":          {func(c *Config) { c.BaseURL = "https://portal test\x7f" }, "baseURL"},
		"credentials in URL": {func(c *Config) { c.BaseURL = "https://me:canary@portal.test" }, "baseURL"},
		"query in URL":       {func(c *Config) { c.BaseURL = "https://portal.test?key=canary" }, "baseURL"},
		"no email":           {func(c *Config) { c.Email = " " }, "email"},
		"no password":        {func(c *Config) { c.Password = "" }, "password"},
		"CA is no PEM":       {func(c *Config) { c.CABundle = []byte("canary") }, "caBundle"},
		"CA is a key": {func(c *Config) {
			c.CABundle = []byte("-----BEGIN PRIVATE KEY-----\nY2FuYXJ5\n-----END PRIVATE KEY-----\n")
		}, "caBundle"},
		"CA is broken": {func(c *Config) {
			c.CABundle = []byte("-----BEGIN CERTIFICATE-----\nY2FuYXJ5\n-----END CERTIFICATE-----\n")
		}, "caBundle"},
		"seed is no base32": {func(c *Config) { c.TOTPSeed = "canary-1890" }, "totpSeed"},
	} {
		t.Run(name, func(t *testing.T) {
			config := testConfig(noTransport{t})
			test.change(&config)
			_, err := New(config)
			if !IsInvalid(err) {
				t.Fatalf("want an invalid input, got %v", err)
			}
			if field := asError(err).Field; field != test.field {
				t.Errorf("the error names field %q, want %q", field, test.field)
			}
			if strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), "canary") {
				t.Errorf("the error carries the value: %v", err)
			}
		})
	}
}

func TestNewAcceptsWhatPeoplePaste(t *testing.T) {
	config := testConfig(noTransport{t})
	config.BaseURL = " https://portal.test:8443/api/v1/ "
	config.TOTPSeed = "jbsw y3dp ehpk 3pxp"
	newClient(t, config)
}

const canary = "c4n4ry"

// TestSecretsAreNotPrinted checks that neither a Config nor a Client prints its secrets: with fmt and any verb, alone or inside another
// struct, with JSON, or with slog.
func TestSecretsAreNotPrinted(t *testing.T) {
	config := testConfig(noTransport{t})
	config.Password = canary + "-password"
	config.TOTPSeed = "MM2G4NDSPEMM2G4NDS"
	client := newClient(t, config)
	client.session.current = schedule("token-1", Login{UserID: "user-1"}, time.Now())
	secrets := []string{config.Password, config.TOTPSeed, "token-1"}
	careless := struct {
		Config Config
		client Client // fmt cannot call the methods of an unexported field
		holder *Client
	}{config, *client, client}
	var out bytes.Buffer
	for _, v := range []any{config, &config, client, *client, client.session, client.session.authenticator, careless} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		_ = json.NewEncoder(&out).Encode(v)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
	}
	for _, secret := range secrets {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q was printed", secret)
		}
		if strings.Contains(out.String(), fmt.Sprintf("%x", secret)) {
			t.Errorf("%q was printed in hex", secret)
		}
	}
	for _, v := range []any{config, &config, client} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if got := fmt.Sprintf(verb, v); got != "portal https://portal.test as robot@example.test" {
				t.Errorf("%s of a %T is %s", verb, v, got)
			}
		}
	}
}

// roundTrip is a function that implements http.RoundTripper.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func respond(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// answersWith accepts every login, and answers all other requests with one body.
func answersWith(status int, body string) roundTrip {
	return func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/login" {
			return respond(200, `{"token":"token-1","user":{"id":"user-1"},"mfaRequired":false}`), nil
		}
		return respond(status, body), nil
	}
}

// TestAddress checks that different spellings of a portal's URL give one address, and that invalid URLs give none.
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
