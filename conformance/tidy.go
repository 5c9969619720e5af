// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// entry is a resource that a check requested and the portal accepted.
type entry struct {
	kind, name string
	accepted   *answer
}

func (e *entry) String() string {
	what := e.kind + " " + e.name
	if job, ok := e.accepted.at("jobId").(string); ok {
		what += " (job " + job + ")"
	}
	return what
}

// making records the resource that an accepted request creates, so that it is deleted even if the check fails.
func (p *probe) making(kind, name string, a *answer) *answer {
	if a.status < 300 {
		p.ledger = append(p.ledger, &entry{kind: kind, name: name, accepted: a})
	}
	return a
}

// tidy deletes the clusters that checks created, and returns what is left: resources that no endpoint deletes, and clusters that could not
// be found or deleted.
func (s *site) tidy() (left []string) {
	for _, e := range s.ledger {
		switch e.kind {
		case "cluster":
			if problem := s.remove(e); problem != "" {
				left = append(left, e.String()+": "+problem)
			}
		default:
			if ids := s.madeIDs(e); len(ids) > 0 {
				left = append(left, fmt.Sprintf("%s, id %s: no endpoint deletes it", e, strings.Join(ids, " or ")))
			}
		}
	}
	s.ledger = nil
	delete(s.made, "cluster")
	return left
}

// remove deletes the cluster of an entry by every id that may belong to it. Ids of other kinds are not found. If the deletion fails, it
// returns what a person must do.
func (s *site) remove(e *entry) string {
	ids := s.madeIDs(e)
	ids = append(ids, s.lookUp(e.name)...)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return s.unnamed(e)
	}
	gone, problem := false, ""
	for _, id := range ids {
		s.try(func(p *probe) {
			a := p.me().start("DELETE", "/kubernetes-clusters/"+url.PathEscape(id), "")
			switch {
			case a.status == http.StatusNotFound || a.at("error", "code") == "RESOURCE_NOT_FOUND":
				gone = true
			case a.status < 300:
				p.me().follow(a).succeeded()
				gone = true
			default:
				problem = fmt.Sprintf("DELETE of %s is answered with status %d", id, a.status)
			}
		})
	}
	switch {
	case gone:
		return ""
	case problem != "":
		return problem + ": delete it at the portal"
	}
	return "its deletion could not be followed to its end: look for it at the portal"
}

// unnamed handles a creation whose answer named no id.
func (s *site) unnamed(e *entry) string {
	failed := false
	s.try(func(p *probe) { failed = p.me().follow(e.accepted).ended().at("status") == "failed" })
	if failed {
		return "its creation has failed: a record may remain at the portal"
	}
	return "the portal did not tell its id: look for it at the portal and delete it"
}

// madeIDs returns all ids in the answer to a creation, or in the result of its job.
func (s *site) madeIDs(e *entry) (ids []string) {
	value := e.accepted.body
	if _, ok := e.accepted.at("jobId").(string); ok {
		value = nil
		s.try(func(p *probe) { value = p.me().follow(e.accepted).ended().at("result") })
	}
	if found := candidates(value, e.kind, e.name); len(found) == 1 {
		return found
	}
	walk(value, "", 0, func(record map[string]any, _ string, _ int) {
		if id, ok := record["id"].(string); ok && id != "" {
			ids = append(ids, id)
		}
	})
	return ids
}

// lookUp asks the portal for clusters by name, in case the portal supports that.
func (s *site) lookUp(name string) (ids []string) {
	if name == "" {
		return nil
	}
	s.try(func(p *probe) {
		a := p.me().get("/kubernetes-clusters?name=" + url.QueryEscape(name))
		if a.status != http.StatusOK {
			return
		}
		walk(a.body, "", 0, func(record map[string]any, _ string, _ int) {
			if id, ok := record["id"].(string); ok && record["name"] == name {
				ids = append(ids, id)
			}
		})
	})
	return ids
}
