// SPDX-License-Identifier: Apache-2.0

package page

import (
	"net"
	"net/http"
	"time"
)

// requestTimeout is how long a browser may take to send a request, and to read a part of an answer.
const requestTimeout = 10 * time.Second

// changeHeader has to be on every request that changes something. A form or a link of another page cannot set it, and a script of
// another page would need a permission that this server never gives.
const changeHeader = "X-Portal-Page"

// headers keep the page to its own files. A file that is not embedded here is neither loaded nor run.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
	"Cache-Control":                "no-store",
}

// guarded refuses requests for another host or from another origin.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		switch {
		case !loopbackHost(r.Host):
			http.Error(w, "The page answers only to loopback addresses and localhost.", http.StatusForbidden)
		case foreign(r) && !opensPage(r):
			http.Error(w, "The page does not answer to other origins.", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// changing refuses changes of a page that is read-only, and those that a script of this page did not send.
func (p *page) changing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case p.ReadOnly:
			http.Error(w, "The page is read-only, because the emulator's admin listener is off.", http.StatusForbidden)
		case r.Header.Get(changeHeader) == "":
			http.Error(w, "A change needs the header "+changeHeader+".", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// loopbackHost reports whether the host of a request, with or without port, names this machine's loopback interface.
func loopbackHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// foreign reports whether a browser says that another origin caused the request. Clients that are no browsers say nothing.
func foreign(r *http.Request) bool {
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+r.Host {
		return true
	}
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

// opensPage reports whether the request follows a link to the page, which any page may have.
func opensPage(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == "/" && r.Header.Get("Origin") == ""
}
