// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"errors"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// site is a portal under test, with what the checks may do there.
type site struct {
	base  string
	via   http.RoundTripper
	users map[role]*user
	wish  wish
	poll  time.Duration // between two looks at a job

	create     bool // checks may create things
	exhaust    bool // checks may use up the rate limit
	virtual    bool // time is virtual
	neighbours bool // other clients use the account
	tier       tier

	books   *emulator.Portal // the portal's records and faults; nil for a real portal
	options emulator.Options // of that portal
	made    map[string]*creation
	ledger  []*entry // created resources, to be deleted at the end
	kit     clientKit
	through func(http.RoundTripper) http.RoundTripper // wraps the transport to another portal; may be nil
	shapes  map[string]string                         // gap → the portal's shape
	version int                                       // index into usable(); the versions before it were refused
}

// tier holds the limits of the account: those of the standard tier, unless flags name others.
type tier struct{ perMinute, burst, workers int }

var standardTier = tier{perMinute: 300, burst: 50, workers: 50}

// of the emulator's options.
func (t tier) of(o emulator.Options) tier {
	return tier{cmp.Or(o.RateLimit.PerMinute, t.perMinute), cmp.Or(o.RateLimit.Burst, t.burst), cmp.Or(o.MaxWorkers, t.workers)}
}

// role is a property of a user that a check needs.
type role string

// The roles. At a real portal one user may have several roles, and some roles may have no user.
const (
	anyone        role = "a user"
	administrator role = "an Administrator"
	ordinary      role = "a user who is no Administrator"
	withMFA       role = "a user with MFA"
	colleague     role = "another user of the same account"
	stranger      role = "a user of another account"
)

// user is a portal user whose secrets are never printed.
type user struct {
	email          string
	password, seed secret
	token          secret // a full-access token that checks share
	step           int64  // of the last one-time code, because each is valid once
}

// secret is a text that fmt cannot print. It is a function, because fmt may not be able to call its methods.
type secret func() string

func conceal(text string) secret {
	if text == "" {
		return nil
	}
	return func() string { return text }
}

// reveal returns the text, or "" for a nil secret.
func (s secret) reveal() string {
	if s == nil {
		return ""
	}
	return s()
}

// hide removes the secrets of the site's users from a text.
func (s *site) hide(text string) string {
	for _, u := range s.users {
		for _, hidden := range []secret{u.password, u.seed, u.token} {
			if hidden != nil {
				text = strings.ReplaceAll(text, hidden.reveal(), "(secret)")
			}
		}
	}
	return text
}

// wish holds the values of create parameters that no endpoint lists.
type wish struct {
	zone, offering, sshKey string
	vpc                    string // name
	cidr                   string // of networks
}

// emulated returns a site at a fresh emulator with open records. Its secrets belong to the test only.
func emulated(t *testing.T, changes ...func(*emulator.Options)) *site {
	t.Helper()
	seed := base32.StdEncoding.EncodeToString([]byte("conformance suite"))
	seed = seed[:len(seed)-len(seed)%8]
	users := map[role]*user{
		anyone:    {email: "admin@portal.example", password: conceal("one of the suite")},
		ordinary:  {email: "user@portal.example", password: conceal("two of the suite")},
		withMFA:   {email: "mfa@portal.example", password: conceal("three of the suite"), seed: conceal(seed)},
		stranger:  {email: "other@portal.example", password: conceal("four of the suite")},
		colleague: {email: "colleague@portal.example", password: conceal("five of the suite")},
	}
	known := func(r role, as emulator.Role, account string) emulator.User {
		u := users[r]
		return emulator.User{Email: u.email, Password: u.password.reveal(), TOTPSeed: u.seed.reveal(), Role: as, Account: account}
	}
	options := emulator.Options{
		Users: []emulator.User{
			known(anyone, emulator.RoleAdministrator, "main"), known(ordinary, emulator.RoleUser, "main"),
			known(withMFA, emulator.RoleUser, "main"), known(stranger, emulator.RoleUser, "other"),
			known(colleague, emulator.RoleUser, "main"),
		},
		VolumesPerCluster: 1,
	}
	for _, change := range changes {
		change(&options)
	}
	p := newEmulator(t, options)
	users[administrator] = users[anyone]
	return &site{
		base: p.URL(), via: p.Transport(), users: users, books: p, options: options, poll: 5 * time.Second,
		made: map[string]*creation{}, shapes: map[string]string{},
		kit: realKit(), create: true, exhaust: true, virtual: true, tier: standardTier.of(options),
		neighbours: slices.ContainsFunc(options.Faults, func(f emulator.Fault) bool { return f.OthersPerMinute > 0 }),
		wish:       wish{zone: "zone-1", offering: "offering-1", sshKey: "key", vpc: "default", cidr: "10.1.0.0/24"},
	}
}

func newEmulator(t testing.TB, options emulator.Options) *emulator.Portal {
	t.Helper()
	p, err := emulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// listening returns an emulated site behind a TLS listener, in real time.
func listening(t *testing.T, changes ...func(*emulator.Options)) *site {
	t.Helper()
	s := emulated(t, changes...)
	if err := s.books.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.base, s.via, s.virtual = s.books.URL(), network(t, s.books.CAPEM()), false
	return s
}

// portalAt returns the base URL as the checks use it. They send the password there, so it must be HTTPS (specification, "Authentication",
// rule 9).
func portalAt(given string) (string, error) {
	base, err := url.Parse(strings.TrimSpace(given))
	if err != nil || base.Scheme != "https" || base.Hostname() == "" || base.User != nil {
		return "", errors.New("-portal-url must begin with https://, and name a host without credentials. Nothing was sent")
	}
	return strings.TrimRight(base.String(), "/"), nil
}

// described returns the site that the flags and the environment describe.
func described(t *testing.T) *site {
	t.Helper()
	base, err := portalAt(*portalURL)
	if err != nil {
		t.Fatal(err)
	}
	var ca []byte
	if *caFile != "" {
		if ca, err = os.ReadFile(*caFile); err != nil {
			t.Fatal(err)
		}
	}
	main := &user{email: *email, password: conceal(os.Getenv("PORTAL_PASSWORD")), seed: conceal(os.Getenv("PORTAL_TOTP_SEED"))}
	if main.email == "" || main.password == nil {
		t.Fatal("a portal needs -email, and the password in PORTAL_PASSWORD")
	}
	s := &site{
		base: base, via: network(t, ca), users: map[role]*user{anyone: main}, made: map[string]*creation{},
		shapes: map[string]string{}, poll: 5 * time.Second, create: *create, exhaust: *exhaust, neighbours: true,
		tier: tier{perMinute: *rateLimit, burst: *rateBurst, workers: *maxWorkers},
		wish: wish{zone: *zone, offering: *offering, sshKey: *sshKey, vpc: *vpcName, cidr: *cidr},
	}
	if *otherEmail != "" {
		s.users[stranger] = &user{email: *otherEmail, password: conceal(os.Getenv("PORTAL_OTHER_PASSWORD"))}
	}
	return s
}

// network returns a TLS transport that trusts the given authority, or the system's if ca is nil.
func network(t *testing.T, ca []byte) http.RoundTripper {
	t.Helper()
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			t.Fatal("the CA file has no PEM certificate")
		}
	}
	transport := &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment, ResponseHeaderTimeout: time.Minute}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}
