// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
		"no host":            {func(c *Config) { c.BaseURL = "https:///api" }, "baseURL"},
		"not a URL":          {func(c *Config) { c.BaseURL = "https://portal test\x7f" }, "baseURL"},
		"credentials in URL": {func(c *Config) { c.BaseURL = "https://me:canary@portal.test" }, "baseURL"},
		"query in URL":       {func(c *Config) { c.BaseURL = "https://portal.test?key=canary" }, "baseURL"},
		"no email":           {func(c *Config) { c.Email = " " }, "email"},
		"no password":        {func(c *Config) { c.Password = "" }, "password"},
		"password by echo":   {func(c *Config) { c.Password = "canary\n" }, "password"},
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
	config.TOTPSeed = "jbsw y3dp ehpk 3pxp\n"
	config.Password = " begins and ends with a space "
	newClient(t, config)
}

// TestPrintedForm checks how a Config and a Client print themselves. test/faulttest: TestCanary checks that no form shows a secret.
func TestPrintedForm(t *testing.T) {
	config := testConfig(noTransport{t})
	for _, v := range []any{config, &config, newClient(t, config)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if got := fmt.Sprintf(verb, v); got != "portal https://portal.test as robot@example.test" {
				t.Errorf("%s of a %T is %s", verb, v, got)
			}
		}
		if got, err := json.Marshal(v); err != nil || string(got) != `"portal https://portal.test as robot@example.test"` {
			t.Errorf("JSON of a %T is %s, %v", v, got, err)
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
		"https:///api":                   "",
		"https://portal.test:port":       "",
	} {
		if got := Address(baseURL); got != want {
			t.Errorf("%q is %q, want %q", baseURL, got, want)
		}
	}
}

// testConfig returns a valid configuration for a portal behind a transport.
func testConfig(transport http.RoundTripper) Config {
	return Config{BaseURL: "https://portal.test", Email: "robot@example.test", Password: "pw", Transport: transport}
}

func newClient(t *testing.T, config Config) *Client {
	t.Helper()
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// untilDone repeats a call as a controller would, at RetryAt.
func untilDone(t *testing.T, call func() error) {
	for {
		err := call()
		if err == nil {
			return
		}
		at, ok := RetryAt(err)
		if !ok || !IsRateLimited(err) {
			t.Error(err)
			return
		}
		if !at.After(time.Now()) {
			t.Errorf("RetryAt %v is not in the future", at)
		}
		time.Sleep(time.Until(at))
	}
}
