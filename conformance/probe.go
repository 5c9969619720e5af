// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// probe sends the requests of a check, with the site and the token that they need.
type probe struct {
	*attempt
	*site
	token string
}

// mayCreate skips the check unless it may create things that cost money or cannot be deleted.
func (p *probe) mayCreate() {
	if !p.Create {
		p.skip("makes something: needs --create")
	}
}

// hidden skips the check unless it can read the portal's records and set faults.
func (p *probe) hidden(why string) {
	if p.books == nil {
		p.skip(why)
	}
}

func (p *probe) get(path string) *answer    { return p.do("GET", path, "") }
func (p *probe) delete(path string) *answer { return p.do("DELETE", path, "") }

// post sends a JSON body, or none if body is "".
func (p *probe) post(path, body string) *answer { return p.do("POST", path, body) }

// do sends a request, and repeats it if the rate limit refuses it. Checks of the limit itself do not use do.
func (p *probe) do(method, path, body string) *answer {
	return p.until(method, path, body, func(a *answer) bool { return a.status == http.StatusTooManyRequests || a.overloaded() })
}

// until sends a request, and repeats it as long as the answer asks for it.
func (p *probe) until(method, path, body string, again func(*answer) bool) *answer {
	for try := 0; ; try++ {
		a := p.once(method, path, body, nil)
		if !again(a) || a.status != http.StatusTooManyRequests && try >= patience {
			return a
		}
		seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
		if err != nil {
			seconds = 5
		}
		time.Sleep(time.Duration(seconds) * time.Second)
	}
}

// patience is how often a request is repeated while the portal cannot serve it.
const patience = 30

// overloaded reports whether the platform is in maintenance or overloaded, which passes after a while.
func (a *answer) overloaded() bool {
	code, _ := a.at("error", "code").(string)
	return a.status == http.StatusServiceUnavailable && !slices.Contains(listedCodes, code) && a.shape() == nil
}

// listedCodes are the codes of the specification.
var listedCodes = []string{
	"INVALID_PARAMETER", "INVALID_TOKEN", "MFA_REQUIRED", "RESOURCE_NOT_FOUND", "RESOURCE_BUSY", "QUOTA_EXCEEDED",
	"INSUFFICIENT_CAPACITY", "RATE_LIMITED", "OPERATION_NOT_ALLOWED",
}

// start sends a request that starts an operation, and repeats it while the resource is busy or the platform is full.
func (p *probe) start(method, path, body string) *answer {
	return p.until(method, path, body, func(a *answer) bool {
		code := a.at("error", "code")
		return a.status == http.StatusTooManyRequests || a.overloaded() || code == "RESOURCE_BUSY" || code == "INSUFFICIENT_CAPACITY"
	})
}

// answerTime is how long an answer and its body may take. Checks find out whether the portal takes too long, so it is generous.
const answerTime = 5 * time.Minute

// once sends a request once, with additional headers.
func (p *probe) once(method, path, body string, header http.Header) *answer {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, p.URL+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	maps.Copy(r.Header, header)
	start := time.Now()
	response, err := p.via.RoundTrip(r)
	if err != nil {
		p.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	a := &answer{attempt: p.attempt, what: method + " " + path, status: response.StatusCode, header: response.Header, hide: p.hide}
	a.raw, err = io.ReadAll(response.Body)
	if err != nil {
		p.Fatalf("%s: %v", a.what, err)
	}
	a.took = time.Since(start)
	if json.Unmarshal(a.raw, &a.body) != nil {
		a.body = nil
	}
	return a
}

// answer is the answer to a request.
type answer struct {
	*attempt
	what   string
	status int
	header http.Header
	raw    []byte
	body   any // decoded; nil if it is not JSON
	took   time.Duration
	hide   func(string) string // hides the site's secrets
}

// shown returns what a failure may print of the answer: a refusal without the site's secrets, and of a success only its size and the names
// of its fields, because any value may be a token or a kubeconfig.
func (a *answer) shown() string {
	if a.status >= 300 && len(tokens(a.body)) == 0 {
		return a.hide(string(a.raw))
	}
	object, _ := a.body.(map[string]any)
	return fmt.Sprintf("%d bytes with %v", len(a.raw), slices.Sorted(maps.Keys(object)))
}

// want ends the check unless the answer has one of these statuses.
func (a *answer) want(statuses ...int) *answer {
	if !slices.Contains(statuses, a.status) {
		a.Fatalf("%s: status %d, want %v: %s", a.what, a.status, statuses, a.shown())
	}
	return a
}

// refused ends the check unless the answer is an error of the documented shape, with one of the codes if some are given. The specification
// does not show which status goes with a code, so any error status is accepted.
func (a *answer) refused(codes ...string) *answer {
	if a.status < 400 {
		a.Fatalf("%s: status %d, want a refusal with %v: %s", a.what, a.status, codes, a.shown())
	}
	if err := a.shape(); err != nil {
		a.Fatalf("%s: %v: %s", a.what, err, a.shown())
	}
	if code := a.text("error", "code"); len(codes) > 0 && !slices.Contains(codes, code) {
		a.Fatalf("%s: code %s, want %v: %s", a.what, code, codes, a.shown())
	}
	return a
}

// shape compares an error with the documented shape.
func (a *answer) shape() error {
	var problems []error
	for _, field := range []string{"code", "message", "requestId"} {
		if text, ok := a.at("error", field).(string); !ok || text == "" {
			problems = append(problems, fmt.Errorf("error.%s is no text", field))
		}
	}
	if field := a.at("error", "field"); field != nil {
		if _, ok := field.(string); !ok {
			problems = append(problems, errors.New("error.field is no text"))
		}
	}
	return errors.Join(problems...)
}

// at follows keys and indexes into the body. It returns nil if one is missing.
func (a *answer) at(path ...any) any { return at(a.body, path...) }

func at(value any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[step]
		case int:
			list, _ := value.([]any)
			if step >= len(list) {
				return nil
			}
			value = list[step]
		}
	}
	return value
}

// text returns a required string.
func (a *answer) text(path ...any) string {
	text, ok := a.at(path...).(string)
	if !ok || text == "" {
		a.Fatalf("%s: no text at %v: %s", a.what, path, a.shown())
	}
	return text
}

// records returns the list under its key, and checks that each record has an id.
func (a *answer) records(key string) []any {
	list, ok := a.want(http.StatusOK).at(key).([]any)
	if !ok {
		a.Fatalf("%s: no list under %s: %s", a.what, key, a.shown())
	}
	for i, record := range list {
		if id, ok := at(record, "id").(string); !ok || id == "" {
			a.Fatalf("%s: record %d of %s has no id", a.what, i, key)
		}
	}
	return list
}

// createdID returns the id of a created record of a kind, such as cluster. The specification shows its place only for a VPC. The id may be
// in the record with the requested name, under a key of the kind, on top, or in the only record.
func (a *answer) createdID(value any, kind, name string) string {
	ids := candidates(value, kind, name)
	if len(ids) != 1 {
		a.Fatalf("%s: %d ids of a created %s: %s", a.what, len(ids), kind, a.shown())
	}
	return ids[0]
}

// candidates returns the possible ids of a created record. A clear answer has exactly one.
func candidates(value any, kind, name string) []string {
	var named, keyed, onTop, all []string
	walk(value, "", 0, func(record map[string]any, key string, depth int) {
		id, ok := record["id"].(string)
		if !ok || id == "" {
			return
		}
		all = append(all, id)
		if depth == 0 {
			onTop = append(onTop, id)
		}
		if name != "" && record["name"] == name {
			named = append(named, id)
		}
		if strings.HasSuffix(strings.ToLower(key), kind) {
			keyed = append(keyed, id)
		}
	})
	for _, ids := range [][]string{named, keyed, onTop, all} {
		slices.Sort(ids)
		if ids = slices.Compact(ids); len(ids) > 0 {
			return ids
		}
	}
	return nil
}

// walk visits the objects in a value, with the key of each.
func walk(value any, key string, depth int, visit func(record map[string]any, key string, depth int)) {
	switch value := value.(type) {
	case []any:
		for _, inner := range value {
			walk(inner, key, depth+1, visit)
		}
	case map[string]any:
		visit(value, key, depth)
		for name, inner := range value {
			walk(inner, name, depth+1, visit)
		}
	}
}
