// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// TestExpiry reads when credentials expire. Credentials that do not contain a time have none.
func TestExpiry(t *testing.T) {
	soon, late := time.Unix(2_000_000_000, 0), time.Unix(2_100_000_000, 0)
	certificate, _ := kubeconfigs.ClientPair(t, soon, late)
	token := func(at time.Time) string { return kubeconfigs.JWT(fmt.Sprintf(`{"sub":"a","exp":%d}`, at.Unix())) }
	tests := map[string]struct {
		certificate []byte
		token       string
		want        time.Time
	}{
		"nothing":                          {},
		"a certificate":                    {certificate: certificate, want: late},
		"a token":                          {token: token(soon), want: soon},
		"both, and the token is first":     {certificate: certificate, token: token(soon), want: soon},
		"both, and the token never":        {certificate: certificate, token: kubeconfigs.JWT(`{}`), want: late},
		"a token that is no JWT":           {token: "a.b"},
		"a token of three parts":           {token: "a.b!.c"},
		"a token of other claims":          {token: kubeconfigs.JWT(`{"exp":"tomorrow"}`)},
		"a token of no object":             {token: kubeconfigs.JWT(`[]`)},
		"a token that expired in the past": {token: kubeconfigs.JWT(`{"exp":1}`), want: time.Unix(1, 0)},
		"no PEM":                           {certificate: []byte("certificate")},
		"PEM of something else":            {certificate: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			config := &rest.Config{BearerToken: test.token, TLSClientConfig: rest.TLSClientConfig{CertData: test.certificate}}
			if got := expiry(config); !got.Equal(test.want) {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestRenewIn checks when a kubeconfig is fetched again for its age.
func TestRenewIn(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	tests := map[string]struct {
		expires, fetched time.Duration // from now
		never            bool
		wait             time.Duration
		due              bool
	}{
		"it never expires":               {never: true},
		"a day, just fetched":            {expires: 24 * time.Hour, wait: 16 * time.Hour},
		"a day, half of it gone":         {expires: 12 * time.Hour, fetched: -12 * time.Hour, wait: 4 * time.Hour},
		"two thirds gone":                {expires: 8 * time.Hour, fetched: -16 * time.Hour, due: true},
		"fetched in vain, a third left":  {expires: 8 * time.Hour, wait: 16 * time.Hour / 3},
		"a few seconds left, in vain":    {expires: 10 * time.Second, wait: renewPause},
		"a few seconds left, from a day": {expires: 10 * time.Second, fetched: -24 * time.Hour, due: true},
		"expired":                        {expires: -time.Second, fetched: -time.Hour},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			expires := now.Add(test.expires)
			if test.never {
				expires = time.Time{}
			}
			wait, due := renewIn(expires, now.Add(test.fetched), now)
			if wait.Round(time.Millisecond) != test.wait.Round(time.Millisecond) || due != test.due {
				t.Errorf("%s, %t; want %s, %t", wait, due, test.wait, test.due)
			}
		})
	}
}

// TestEndsSoon checks when the end of a client certificate is reported. One that lasts a year is reported 30 days before. One that a portal
// renews all the time is not, unless the renewal did not come.
func TestEndsSoon(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Unix(2_000_000_000, 0)
	for title, test := range map[string]struct {
		life, left time.Duration
		want       bool
	}{
		"a year, 31 days left": {365 * day, 31 * day, false},
		"a year, 29 days left": {365 * day, 29 * day, true},
		"a year, expired":      {365 * day, -day, true},
		"a day, a third left":  {day, 8 * time.Hour, false},
		"a day, an hour left":  {day, time.Hour, true},
	} {
		t.Run(title, func(t *testing.T) {
			ends := now.Add(test.left)
			certificate, _ := kubeconfigs.ClientPair(t, ends.Add(-test.life), ends)
			if got := endsSoon(certificate, now); (got != nil) != test.want || test.want && !got.Time.Equal(ends) {
				t.Errorf("reported: %v", got)
			}
		})
	}
	if got := endsSoon([]byte("token"), now); got != nil {
		t.Errorf("without a certificate: %v", got)
	}
}
