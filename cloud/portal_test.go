// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"io"
	"log"
	"net/http"
	"testing"
	"time"
)

var quiet = log.New(io.Discard, "", 0)

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
