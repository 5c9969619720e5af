// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// TestCanary runs a life at the highest verbosity, prints everything that can be printed, and checks that the output has no secret. The
// cells of the matrix check their errors and request logs as well.
func TestCanary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests bytes.Buffer
		options := emulator.Options{RequestLogTo: &requests, Seed: 1}
		p := newPortal(t, options)
		wire := newTap(p.Transport())
		var log bytes.Buffer
		logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}))
		c := newClient(t, p, careful, func(c *cloud.Config) {
			c.Transport = wire
			c.Observe = func(call cloud.Call) { logger.Debug("call", "value", call, "text", fmt.Sprintf("%+v", call)) }
		})
		(&life{scene: &scene{T: t, portal: p, client: c}}).whole()
		if err := c.RequestPasswordReset(t.Context(), mfaEmail); err != nil {
			t.Error(err)
		}
		mail := p.Mailbox(mfaEmail)
		wire.note("a reset token", mail[0].ResetToken)
		if err := c.ResetPassword(t.Context(), mail[0].ResetToken, "Another-Horse-8"); err != nil {
			t.Error(err)
		}

		wire.keepsRequestLog(t, "life", p)
		for what, text := range map[string]string{"the copied request log": requests.String(), "the log": log.String()} {
			if found := wire.leaked(text); len(found) > 0 || text == "" {
				t.Errorf("%s of %d bytes has %v", what, len(text), found)
			}
		}
		for what, value := range things(t, p, c, wire) {
			wire.keeps(t, what, value)
		}
		wire.keepsAdmin(t, p)
		if kinds := wire.kinds(); len(kinds) < 7 {
			t.Errorf("only these kinds of secrets were seen: %v", kinds)
		}
	})
}

// things returns values that a program might print.
func things(t *testing.T, p *emulator.Portal, c *cloud.Client, wire *tap) map[string]any {
	t.Helper()
	config := cloud.Config{BaseURL: p.URL(), Email: mfaEmail, Password: password, TOTPSeed: seed, Transport: wire}
	pool := &cloud.Pool{}
	pooled, err := pool.Client(config)
	if err != nil {
		t.Fatal(err)
	}
	reservation, err := c.Reserve("flow", ratelimit.Read)
	if err != nil {
		t.Fatal(err)
	}
	user := emulator.User{Email: mfaEmail, Password: password, TOTPSeed: seed}
	type holder struct {
		Config cloud.Config
		Client *cloud.Client
		client *cloud.Client
	}
	_, refused := newClient(t, p, func(c *cloud.Config) { c.TOTPSeed = seed }).UserID(t.Context()) // the password has been changed
	return map[string]any{
		"a client": c, "a client by value": *c, "a configuration": config, "its address": &config,
		"a client in a struct": holder{Client: c, Config: config}, "a client in an unexported field": holder{client: c},
		"a pool": pool, "a pool's client": pooled, "a limiter": c.Limiter(), "a reservation": reservation,
		"a refused login":            refused,
		"a context with reservation": cloud.WithReservation(context.Background(), reservation),
		"a portal's user":            user, "its address too": &user, "users": []emulator.User{user},
		"a portal's options": emulator.Options{Users: []emulator.User{user}},
		"a portal":           p,
		"violations":         p.Violations(), "clusters": p.Clusters(), "jobs": p.Jobs(), "faults": p.Faults(),
	}
}

// TestEchoedSecrets checks that errors and reported calls have no secret, even if the portal's text repeats the request and the credentials.
func TestEchoedSecrets(t *testing.T) {
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, m.path, emulator.Options{Durations: quick, ListClusters: true})
				wire := newTap(&echo{next: s.portal.Transport(), verb: m.verb, path: m.path})
				if m.group != "send" && m.group != "verify" {
					delete(wire.seen, seed) // this user has no seed
				}
				s.client = newClient(t, s.portal, m.user, func(c *cloud.Config) {
					c.Transport = wire
					c.Observe = func(call cloud.Call) { wire.keeps(t, "a call", call) }
				})
				if _, err := s.client.UserID(t.Context()); (err != nil) != m.entering() {
					t.Fatal(err)
				}
				time.Sleep(time.Hour) // until the client tries a refused login again
				err := m.call(t.Context(), s)
				if err == nil {
					t.Fatal("no error")
				}
				wire.keeps(t, "the error", err)
			})
		})
	}
}

// echo is a portal that refuses one endpoint, with a text that contains the request and the user's credentials.
type echo struct {
	next       http.RoundTripper
	verb, path string
}

// RoundTrip implements http.RoundTripper.
func (e *echo) RoundTrip(r *http.Request) (*http.Response, error) {
	match, err := path.Match(parameter.ReplaceAllString(e.path, "*"), r.URL.Path)
	if err != nil || !match || r.Method != e.verb {
		return e.next.RoundTrip(r)
	}
	var sent []byte
	if r.Body != nil {
		if sent, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	known := []string{password, seed, r.URL.Path, r.Header.Get("Authorization"), string(sent)}
	refusal, err := json.Marshal(map[string]any{"error": map[string]string{
		"code": "BRAND_NEW " + known[4], "message": strings.Join(known, " "), "field": known[0] + known[3], "requestId": known[3] + known[2],
	}})
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusConflict, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(refusal)), Request: r}, nil
}

var parameter = regexp.MustCompile(`\{[^/]*\}`)
