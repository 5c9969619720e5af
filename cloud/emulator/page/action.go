// SPDX-License-Identifier: Apache-2.0

package page

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
)

// maxAction is the size of the largest body of POST /actions.
const maxAction = 1 << 14

// act answers POST /actions. It takes an action only if Kubernetes offers exactly this command now, so a person gets what the page said, and
// nobody can send a command of their own.
func (p *page) act(w http.ResponseWriter, r *http.Request) {
	var wanted Action
	if err := json.NewDecoder(io.LimitReader(r.Body, maxAction)).Decode(&wanted); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if p.Act == nil || p.Options.Kubernetes == nil {
		http.Error(w, "This page offers no actions.", http.StatusNotFound)
		return
	}
	known, err := p.Options.Kubernetes(r.Context())
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	offered := func(c Cluster) bool { return slices.Contains(c.Actions, wanted) }
	if !slices.ContainsFunc(known.Clusters, offered) {
		http.Error(w, "The cluster has changed, so this action is not offered any more.", http.StatusConflict)
		return
	}
	output, err := p.Act(r.Context(), wanted.Command)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, output) // the reader may have gone
}
