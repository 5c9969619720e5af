// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestPageRefused checks what portalctl says about a management cluster that it cannot read. What it shows of one that it can, test/rights has.
func TestPageRefused(t *testing.T) {
	status := http.StatusForbidden
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, http.StatusText(status), status)
	}))
	defer server.Close()
	d := newDesk(t, emulator.Options{})
	kubeconfig := fileWith(t, fmt.Appendf(nil, `{"kind":"Config","apiVersion":"v1","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","namespace":"fleet"}}],
"clusters":[{"name":"c","cluster":{"server":%q}}]}`, server.URL))
	d.run("page", "--kubeconfig", kubeconfig).exits(exitRefused).says("portal-reader", "namespace fleet")
	d.run("page", "--kubeconfig", kubeconfig, "--all-namespaces").exits(exitRefused).says("all namespaces")
	status = http.StatusUnauthorized
	d.run("page", "--kubeconfig", kubeconfig).exits(exitCredentials).says("renew")
	server.Close()
	d.run("page", "--kubeconfig", kubeconfig).exits(exitUnreachable).says("cannot be read")
	d.run("page", "--kubeconfig", kubeconfig, "--context", "none").exits(exitUsage).says("none")
	d.run("page", "--kubeconfig", kubeconfig+"-none").exits(exitUsage).says("--kubeconfig")
	d.run("page", "--namespace", "a", "--all-namespaces").exits(exitUsage)
}
