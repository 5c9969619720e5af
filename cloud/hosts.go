// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Hosts decides which hosts a Client may connect to. A program that runs clients for tenants needs it: a base URL that a tenant
// chooses must not lead to the metadata service of the platform, or to a port that only listens on loopback. Nil allows all.
//
// Hosts checks twice: the name before a client is made (checkPortal), and the address that the name resolved to when a connection is
// made (checkAddress). So neither a DNS name for a metadata service nor an answer that changes between two lookups gets
// through. Private networks such as 10.0.0.0/8 are allowed: a portal inside a company is normal.
type Hosts struct {
	listed []listedHost // none: every public host
}

// listedHost is one entry of the list: a host, or all hosts below a domain, on one port or on all.
type listedHost struct {
	name string // lower case, or an address in its usual form. For a wildcard, the part after the asterisk: ".example.com"
	port string // empty: every port
}

func (l listedHost) wildcard() bool { return strings.HasPrefix(l.name, ".") }

// exact reports whether the entry names this very host and port.
func (l listedHost) exact(host, port string) bool {
	return l.name == host && (l.port == "" || l.port == port)
}

func (l listedHost) matches(host, port string) bool {
	if !l.wildcard() {
		return l.exact(host, port)
	}
	return strings.HasSuffix(host, l.name) && len(host) > len(l.name) && (l.port == "" || l.port == port)
}

// NewHosts reads a list of hosts: portal.example.com, portal.example.com:8443, *.example.com, 127.0.0.1, [::1]:8443. An empty
// list allows every public host.
func NewHosts(list ...string) (*Hosts, error) {
	h := &Hosts{}
	for _, entry := range list {
		listed, err := parseHost(entry)
		if err != nil {
			return nil, fmt.Errorf("%q %w", entry, err)
		}
		h.listed = append(h.listed, listed)
	}
	return h, nil
}

func parseHost(entry string) (listedHost, error) {
	text, wildcard := strings.CutPrefix(strings.TrimSpace(entry), "*.")
	base, err := url.Parse("https://" + text)
	if err != nil || base.Hostname() == "" || base.Host != text || strings.HasSuffix(base.Host, ":") {
		return listedHost{}, fmt.Errorf("is no host, such as portal.example.com, portal.example.com:8443 or *.example.com")
	}
	name := hostName(base.Hostname())
	_, isAddress := parseAddress(name)
	if strings.Contains(name, "*") || wildcard && isAddress {
		return listedHost{}, fmt.Errorf("has an asterisk in the wrong place: only *.example.com is possible, for all hosts below example.com")
	}
	if wildcard {
		name = "." + name
	}
	return listedHost{name: name, port: base.Port()}, nil
}

// checkPortal refuses a base URL by what it says, before anything is resolved.
func (h *Hosts) checkPortal(base *url.URL) error {
	if h == nil {
		return nil
	}
	host, port := hostName(base.Hostname()), portOf(base)
	if len(h.listed) > 0 && !slices.ContainsFunc(h.listed, func(l listedHost) bool { return l.matches(host, port) }) {
		return invalidInput("baseURL", hostNotListed)
	}
	if isLocal(host) && !h.trusts(host, port) {
		return invalidInput("baseURL", hostRefused)
	}
	return nil
}

// checkAddress refuses an address that the host of a portal resolved to. A host that is listed by its own name may be
// anywhere, since an administrator has decided that. A wildcard says nothing about addresses: other people may own names below it.
func (h *Hosts) checkAddress(base *url.URL, address string) error {
	if h == nil || h.trusts(hostName(base.Hostname()), portOf(base)) {
		return nil
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil || isSpecial(at.Addr()) {
		return errHostRefused
	}
	return nil
}

// CheckServer refuses the host of an API server that a portal named in a kubeconfig: a tenant's own portal must not lead
// there either. Only a listed portal that is on loopback itself, as one for tests is, may name servers on loopback.
// The check is by what the host says: the address of a server that is named by DNS is not known yet.
func (h *Hosts) CheckServer(baseURL, host string) error {
	if h == nil || !isLocal(hostName(host)) {
		return nil
	}
	base, err := url.Parse(strings.TrimSpace(baseURL))
	if err == nil && h.trusts(hostName(base.Hostname()), portOf(base)) && isLoopback(hostName(base.Hostname())) && isLoopback(hostName(host)) {
		return nil
	}
	return fmt.Errorf("its server %w", errHostRefused)
}

// DialServer returns the function that connects to the API server of a workload cluster, or to a proxy before it. It refuses the addresses
// that CheckServer refuses, for any name that resolved to them. Addresses on loopback are left to a manager whose list names a host there.
func (h *Hosts) DialServer(server *url.URL) func(ctx context.Context, network, target string) (net.Conn, error) {
	return dialChecked(server, h.checkServerAddress)
}

func (h *Hosts) checkServerAddress(address string) error {
	if h == nil {
		return nil
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return errHostRefused
	}
	local := at.Addr().Unmap().IsLoopback() && slices.ContainsFunc(h.listed, func(l listedHost) bool { return isLoopback(l.name) })
	if isSpecial(at.Addr()) && !local {
		return errHostRefused
	}
	return nil
}

// trusts reports whether an administrator has listed this very host.
func (h *Hosts) trusts(host, port string) bool {
	return slices.ContainsFunc(h.listed, func(l listedHost) bool { return l.exact(host, port) })
}

// isLocal reports whether the name alone says that the host is at a special address. Some resolvers read 2130706433 or 0x7f.1 as
// an address. No domain ends in a number, so such names are refused.
func isLocal(host string) bool {
	if address, ok := parseAddress(host); ok {
		return isSpecial(address)
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return isLoopback(host) || last == "" || last[0] >= '0' && last[0] <= '9'
}

func isLoopback(host string) bool {
	if address, ok := parseAddress(host); ok {
		return address.IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// hostName is the one spelling of a host that is compared.
func hostName(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if address, ok := parseAddress(host); ok {
		return address.String()
	}
	return host
}

func parseAddress(host string) (netip.Addr, bool) {
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return address.Unmap().WithZone(""), err == nil
}

func portOf(base *url.URL) string {
	return cmp.Or(base.Port(), "443")
}

// metadata holds the addresses of metadata services, and of other services of platforms for their own machines, outside of the
// link-local range.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::/32"),      // Amazon
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle
	netip.MustParsePrefix("0.0.0.0/8"),          // this host
	netip.MustParsePrefix("240.0.0.0/4"),        // reserved, and broadcast
}

// isSpecial reports whether a portal cannot be expected at the address. An IPv4 address inside of an IPv6 one counts as itself.
func isSpecial(address netip.Addr) bool {
	address = embeddedIPv4(address.Unmap().WithZone(""))
	return address.IsLoopback() || address.IsMulticast() || address.IsLinkLocalUnicast() ||
		slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(address) })
}

// Prefixes of IPv6 addresses that a network translates to the IPv4 address in them, and where that begins.
var translated = map[netip.Prefix]int{
	netip.MustParsePrefix("64:ff9b::/96"): 12, // NAT64
	netip.MustParsePrefix("2002::/16"):    2,  // 6to4
	netip.MustParsePrefix("::/96"):        12, // IPv4-compatible, deprecated. ::1 and :: become addresses of 0.0.0.0/8
}

func embeddedIPv4(address netip.Addr) netip.Addr {
	for prefix, at := range translated { // which contain no IPv4 address
		if prefix.Contains(address) {
			all := address.As16()
			return netip.AddrFrom4([4]byte(all[at : at+4]))
		}
	}
	return address
}

// isDialed is the host that a transport dials: a proxy's is not the portal's.
func isDialed(base *url.URL, target string) bool {
	host, port, err := net.SplitHostPort(target)
	return err != nil || hostName(host) == hostName(base.Hostname()) && port == portOf(base)
}
