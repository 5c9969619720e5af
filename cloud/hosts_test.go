// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func hosts(t *testing.T, list ...string) *Hosts {
	t.Helper()
	h, err := NewHosts(list...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestHostsByName checks which base URLs are allowed because of their host. An empty list allows every public host and private networks.
// Names that look like a loopback, link-local or metadata address must be listed.
func TestHostsByName(t *testing.T) {
	for _, test := range []struct {
		list, refused string
		hosts         []string
	}{
		{"", "", []string{
			"portal.example.com", "portal.example.com:8443/api", "10.1.2.3", "192.168.0.1", "172.16.0.1", "100.64.0.1",
			"[fd12::1]", "[2001:db8::1]", "[2002:0a00:0001::1]", "1e100.example.net", "portal.x0",
		}},
		{"", hostRefused, []string{
			"localhost", "LOCALHOST.:443", "a.localhost", "127.0.0.1", "127.8.0.1:6443", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]",
			"[::127.0.0.1]", "[64:ff9b::169.254.169.254]", "[2002:a9fe:a9fe::1]", "0.0.0.0", "0.1.2.3", "[::]", "169.254.169.254/latest",
			"[fe80::1%25eth0]", "[fd00:ec2::254]", "[fd20:ce::254]", "224.0.0.1", "[ff02::1]", "255.255.255.255",
			"100.100.100.200", "168.63.129.16", "192.0.0.192", "2130706433", "0x7f.1", "127.1", "portal.9", ".",
		}},
		{"portal.example.com", "", []string{"portal.example.com", "PORTAL.example.com.:8443"}},
		{"portal.example.com", hostNotListed, []string{"other.example.com", "portal.example.com.evil.test"}},
		{"portal.example.com:8443", "", []string{"portal.example.com:8443"}},
		{"portal.example.com:8443", hostNotListed, []string{"portal.example.com"}},
		{"*.example.com", "", []string{"portal.example.com", "a.portal.example.com:8443"}},
		{"*.example.com", hostNotListed, []string{"example.com", "evilexample.com", ".example.com"}},
		{"*.example.com:8443", hostNotListed, []string{"portal.example.com"}},
		{"127.0.0.1", "", []string{"127.0.0.1:33445", "[::ffff:127.0.0.1]"}},
		{"[::1]:8443 portal.example.com", "", []string{"[::1]:8443"}},
		{"*.localhost", hostRefused, []string{"a.localhost"}}, // a wildcard lists no host by its own name
	} {
		for _, host := range test.hosts {
			err := hosts(t, strings.Fields(test.list)...).checkPortal(mustURL(t, "https://"+host))
			if (err == nil) != (test.refused == "") || err != nil && (!IsInvalid(err) || !strings.Contains(err.Error(), "baseURL: "+test.refused)) {
				t.Errorf("list %q: %s: %v, want %q", test.list, host, err, test.refused)
			}
		}
	}
}

func TestHostsAreRead(t *testing.T) {
	for _, entry := range []string{
		"", "*", "*.", "*.*.example.com", "a.*.example.com", "https://portal.example.com", "portal.example.com/api", "portal.example.com:",
		"portal.example.com:x", "user@portal.example.com", "*.10.0.0.1", "a b", "::1",
	} {
		if h, err := NewHosts("portal.example.com", entry); err == nil || !strings.Contains(err.Error(), `"`+entry+`"`) {
			t.Errorf("%q is read as %+v, %v", entry, h, err)
		}
	}
}

// TestHostsByAddress checks that only a host that is listed by its own name may resolve to a special address: names below a wildcard may be others'.
func TestHostsByAddress(t *testing.T) {
	for _, test := range []struct {
		list, base, address string
		refused             bool
	}{
		{"", "https://portal.example.com", "203.0.113.1:443", false},
		{"", "https://portal.example.com", "169.254.169.254:443", true},
		{"", "https://portal.example.com", "[fe80::1%eth0]:443", true},
		{"", "https://portal.example.com", "127.0.0.1:443", true},
		{"", "https://portal.example.com", "nonsense", true},
		{"*.example.com", "https://portal.example.com", "127.0.0.1:443", true},
		{"*.example.com", "https://portal.example.com", "10.0.0.1:443", false},
		{"other.example.com portal.example.com", "https://Portal.example.com", "127.0.0.1:443", false},
		{"portal.example.com:8443 *.example.com", "https://portal.example.com", "127.0.0.1:443", true},
	} {
		err := hosts(t, strings.Fields(test.list)...).checkAddress(mustURL(t, test.base), test.address)
		if (err != nil) != test.refused || err != nil && !errors.Is(err, errHostRefused) {
			t.Errorf("list %q: %s at %s: %v", test.list, test.base, test.address, err)
		}
	}
	var all *Hosts
	base := mustURL(t, "https://127.0.0.1")
	if err := errors.Join(all.checkPortal(base), all.checkAddress(base, "127.0.0.1:443"), all.CheckServer("https://portal.example.com", "127.0.0.1")); err != nil {
		t.Errorf("without Hosts: %v", err)
	}
}

// TestServersOfAKubeconfig checks the hosts on which a portal may run its clusters.
func TestServersOfAKubeconfig(t *testing.T) {
	for _, test := range []struct {
		list, portal, server string
		refused              bool
	}{
		{"", "https://portal.example.com", "api.example.net", false},
		{"", "https://portal.example.com", "127.0.0.1", true},
		{"portal.example.com", "https://portal.example.com", "api.elsewhere.net", false},
		{"127.0.0.1", " https://127.0.0.1:8443", "127.0.0.1", false},
		{"localhost", "https://localhost:8443", "::1", false},
		{"127.0.0.1", "https://127.0.0.1:8443", "169.254.169.254", true},
		{"127.0.0.1:8443", "https://127.0.0.1:9443", "127.0.0.1", true},
		{"169.254.1.1", "https://169.254.1.1", "127.0.0.1", true},
		{"127.0.0.1", "://", "127.0.0.1", true},
	} {
		err := hosts(t, strings.Fields(test.list)...).CheckServer(test.portal, test.server)
		if (err != nil) != test.refused {
			t.Errorf("list %q: portal %s with server %s: %v", test.list, test.portal, test.server, err)
		}
	}
}

// TestAddressIsCheckedWhenDialed checks on a real socket the address to which a portal or an API server resolves. A proxy may have any.
func TestAddressIsCheckedWhenDialed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	portal := func(base string, h *Hosts) dialFunc { return newDial(h, mustURL(t, base)) }
	server := func(base string) dialFunc { return hosts(t).DialServer(mustURL(t, base)) }
	for name, test := range map[string]struct {
		dial    dialFunc
		refused bool
	}{
		"without a list":             {portal("https://localhost:"+port, nil), false},
		"an empty list":              {portal("https://localhost:"+port, hosts(t)), true},
		"a wildcard":                 {portal("https://localhost:"+port, hosts(t, "*.example.com")), true},
		"a listed portal":            {portal("https://LOCALHOST.:"+port, hosts(t, "localhost:"+port)), false},
		"another port, of a proxy":   {portal("https://localhost", hosts(t)), false},
		"another host, of a proxy":   {portal("https://portal.example.com:"+port, hosts(t)), false},
		"an API server":              {server("https://localhost:" + port), true},
		"an API server behind proxy": {server("https://behind.a.proxy"), false},
	} {
		conn, err := test.dial(t.Context(), "tcp4", "localhost:"+port)
		if (err != nil) != test.refused || err != nil && (!errors.Is(err, errHostRefused) || !isBeforeWriting(err)) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
	if !isDialed(mustURL(t, "https://localhost"), "no port") {
		t.Error("an unreadable target is not checked")
	}
}

// TestClientRefusesHosts checks that a portal on loopback can be used only if it is listed.
func TestClientRefusesHosts(t *testing.T) {
	portal := newTLSPortal(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"versions":[]}`)) })
	config := Config{BaseURL: portal.URL, Email: "a@portal.test", Password: "pw", CABundle: portal.ca(), Hosts: hosts(t)}
	if _, err := New(config); !IsInvalid(err) {
		t.Errorf("an unlisted portal on loopback: %v", err)
	}
	config.Hosts = hosts(t, mustURL(t, portal.URL).Host)
	if err := look(t, newClient(t, config)); err != nil {
		t.Errorf("a listed portal on loopback: %v", err)
	}
}

// TestRefusedAddress checks that an error says that no request was sent, and that the client does not dial again for a while.
func TestRefusedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials, refuse := 0, true
		c := newClient(t, testConfig(roundTrip(func(r *http.Request) (*http.Response, error) {
			if refuse {
				dials++
				return nil, &net.OpError{Op: "dial", Err: errHostRefused}
			}
			return answersWith(200, `{"versions":[]}`)(r)
		})))
		for range 60 {
			err := look(t, c)
			if got := which(t, err); got != "host refused" || !strings.Contains(err.Error(), hostRefused) {
				t.Fatalf("%s: %v", got, err)
			}
			time.Sleep(time.Second)
		}
		if dials != 2 {
			t.Errorf("dialed %d times in a minute", dials)
		}
		refuse = false
		time.Sleep(refusalBackoff)
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		refuse = true
		if _, err := c.CreateCluster(t.Context(), CreateClusterRequest{}); which(t, err) != "host refused" {
			t.Errorf("a create whose address is refused: %v", err)
		}
	})
}

// TestAnyServersAnswer checks which refusals of a login may come from any web server.
func TestAnyServersAnswer(t *testing.T) {
	documented := `{"error":{"code":"INVALID_TOKEN","message":"m","requestId":"r"}}`
	for _, test := range []struct {
		path   string
		status int
		body   string
		want   bool
	}{
		{"/login", 401, `{"kind":"Status","code":401}`, true}, {"/login", 401, documented, false},
		{"/login", 429, "", true}, {"/login", 429, `{"error":{"code":"RATE_LIMITED"}}`, false},
		{"/login", 404, "", true}, {"/login", 200, "hello", true}, {"/login", 503, "", false},
		{"/kubernetes-versions", 401, "", false},
	} {
		err := look(t, newClient(t, testConfig(roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == test.path {
				return respond(test.status, test.body), nil
			}
			return answersWith(200, "")(r)
		}))))
		if got := IsGenericRefusal(err); got != test.want || err == nil {
			t.Errorf("%s %d %s: %t, %v", test.path, test.status, test.body, got, err)
		}
	}
	if IsGenericRefusal(&Error{kind: kindUnauthorized, Endpoint: routeLogin.String()}) {
		t.Error("an error without an answer counts as the answer of any server")
	}
}

// TestServersByAddress checks the addresses that the API server of a workload cluster may have under any name.
func TestServersByAddress(t *testing.T) {
	for _, test := range []struct {
		list    string
		address string
		refused bool
	}{
		{"", "203.0.113.7:6443", false}, {"", "10.0.0.7:6443", false},
		{"", "127.0.0.1:6443", true}, {"", "[::1]:6443", true}, {"", "0.0.0.0:6443", true}, {"", "169.254.169.254:443", true}, {"", "no address", true},
		{"127.0.0.1", "127.0.0.1:6443", false}, {"localhost", "127.0.0.2:6443", false}, {"127.0.0.1", "[::ffff:127.0.0.1]:6443", false},
		{"127.0.0.1", "0.0.0.0:6443", true}, {"127.0.0.1", "169.254.169.254:443", true}, {"portal.example.com", "127.0.0.1:6443", true},
	} {
		if err := hosts(t, strings.Fields(test.list)...).checkServerAddress(test.address); (err != nil) != test.refused || err != nil && !errors.Is(err, errHostRefused) {
			t.Errorf("--portal-host=%s, address %s: %v", test.list, test.address, err)
		}
	}
	if err := (*Hosts)(nil).checkServerAddress("127.0.0.1:1"); err != nil {
		t.Errorf("without a list: %v", err)
	}
}
