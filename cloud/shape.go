// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Gaps of the specification whose shape the client reports. Package conformance lists all gaps and all shapes, under the same names.
const (
	gapList      = "list"
	listKeyed    = "under its key"
	listBare     = "bare"
	listOtherKey = "under another key"

	gapCreatedID  = "created id"
	createdNested = "in one nested object"
	createdOnTop  = "at the top"
	createdBeside = "beside other records"
	createdDeeper = "one level deeper"

	gapOTPToken    = "verify-otp token"
	tokenUsualName = "under a usual name"
	tokenOtherName = "under another name"
	tokenNested    = "in a nested object"

	gapNetwork    = "network creation"
	networkAtOnce = "at once"
	networkByJob  = "by a job"

	gapJobError    = "job error"
	jobErrorObject = "object"
	jobErrorWhole  = "whole error body"
	jobErrorString = "string"

	gapFind     = "lookup of clusters by name"
	findListed  = "answered"
	findUnknown = "not answered"
)

// maxNesting is how many levels below the top of an answer ids and tokens are looked for.
const maxNesting = 4

// items finds the list in an answer: under its key as documented, bare, or under the only key that holds an array. It
// returns the shape, or "" if there is no list. "Absent" is not an empty list: a lookup without an answer must not
// read as "does not exist".
func items(body []byte, key string) ([]json.RawMessage, string) {
	raw, shape := json.RawMessage(body), listBare
	if isObject(body) {
		var fields map[string]json.RawMessage
		if json.Unmarshal(body, &fields) != nil {
			return nil, ""
		}
		raw, shape = listField(fields, key)
	}
	var list []json.RawMessage
	if !isArray(raw) || json.Unmarshal(raw, &list) != nil {
		return nil, ""
	}
	return list, shape
}

func listField(fields map[string]json.RawMessage, key string) (json.RawMessage, string) {
	if raw, ok := fields[key]; ok {
		if string(bytes.TrimSpace(raw)) == "null" {
			return json.RawMessage("[]"), listKeyed
		}
		return raw, listKeyed
	}
	var found json.RawMessage
	for _, raw := range fields {
		if !isArray(raw) {
			continue
		}
		if found != nil {
			return nil, "" // two candidates: no guess
		}
		found = raw
	}
	return found, listOtherKey
}

// Kind is a sort of resource that the portal creates.
type Kind string

// The kinds of created resources. Each is the last word of the keys under which answers carry it.
const (
	KindCluster Kind = "cluster"
	KindNetwork Kind = "network"
	KindVPC     Kind = "vpc"
)

var kinds = []Kind{KindCluster, KindNetwork, KindVPC}

// candidate is a record in an answer that may be the created one.
type candidate struct {
	record
	kind  Kind // named by its key, or ""
	depth int
}

// createdID finds the id of the created resource in an answer, and its shape. The first rule that leaves exactly one id
// decides: the record with the name that was asked for, the record under a key of the kind, the record at the top, the
// only record that is of no other kind. Name and kind may be empty.
func createdID(raw []byte, kind Kind, name string) (id, shape string) {
	var all []candidate
	walk(raw, "", 0, func(raw json.RawMessage, key string, depth int) {
		if r, ok := readRecord(raw); ok {
			all = append(all, candidate{record: r, kind: kindOfKey(key), depth: depth})
		}
	})
	rules := []func(candidate) bool{
		func(c candidate) bool { return name != "" && string(c.Name) == name },
		func(c candidate) bool { return kind != "" && c.kind == kind },
		func(c candidate) bool { return c.depth == 0 },
		func(c candidate) bool { return kind == "" || c.kind == "" || c.kind == kind },
	}
	for i, rule := range rules {
		found := filter(all, rule)
		if i == 0 && slices.ContainsFunc(found, rules[1]) {
			found = filter(found, rules[1]) // a network may be named after its cluster
		}
		if len(found) == 0 {
			continue
		}
		first := slices.MinFunc(found, func(a, b candidate) int { return a.depth - b.depth })
		if slices.ContainsFunc(found, func(c candidate) bool { return c.depth == first.depth && c.ID != first.ID }) {
			return "", "" // several: no guess
		}
		return string(first.ID), createdShape(all, first)
	}
	return "", ""
}

// createdShape names where the id stood.
func createdShape(all []candidate, found candidate) string {
	switch {
	case found.depth == 0:
		return createdOnTop
	case found.depth > 1:
		return createdDeeper
	case slices.ContainsFunc(all, func(c candidate) bool { return c.depth <= 1 && c.ID != found.ID }):
		return createdBeside
	}
	return createdNested
}

func filter[T any](all []T, is func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(all), func(v T) bool { return !is(v) })
}

// walk calls visit for a JSON value and for all values in it, each with its depth and the key that it stands under. The values of a
// list stand under the key of the list.
func walk(raw json.RawMessage, key string, depth int, visit func(raw json.RawMessage, key string, depth int)) {
	if depth > maxNesting {
		return
	}
	visit(raw, key, depth)
	var list []json.RawMessage
	var object map[string]json.RawMessage
	switch {
	case isArray(raw) && json.Unmarshal(raw, &list) == nil:
		for _, inner := range list {
			walk(inner, key, depth+1, visit)
		}
	case isObject(raw) && json.Unmarshal(raw, &object) == nil:
		for _, inner := range slices.Sorted(maps.Keys(object)) {
			walk(object[inner], inner, depth+1, visit)
		}
	}
}

// kindOfKey reads "kubernetesCluster", "cluster" and "clusters" as a cluster, and so on.
func kindOfKey(key string) Kind {
	word := strings.TrimSuffix(strings.ToLower(key), "s")
	for _, k := range kinds {
		if strings.HasSuffix(word, string(k)) {
			return k
		}
	}
	return ""
}

// usualNames of a token's field, the likeliest first.
var usualNames = []string{"token", "accessToken", "access_token", "jwt"}

// text is a string of an answer.
type text struct {
	name, value string
	depth       int
}

// tokenIn finds the full-access token in the answer of verify-otp, and its shape. The specification says that the answer
// contains a JWT, and does not show where. A usual name decides among several JWTs. Under another name it must be the
// only one. A token that is no JWT is taken under a usual name only. The pre-MFA token is never the answer.
func tokenIn(body []byte, preMFA string) (token, shape string) {
	var found []text
	walk(body, "", 0, func(raw json.RawMessage, name string, depth int) {
		var value string
		if json.Unmarshal(raw, &value) == nil && value != preMFA && usableToken(value) {
			found = append(found, text{name: name, value: value, depth: depth})
		}
	})
	jwts := filter(found, func(t text) bool { return isJWT(t.value) })
	for _, among := range [][]text{jwts, found} {
		for _, name := range usualNames {
			if t, ok := only(filter(among, func(t text) bool { return t.name == name })); ok {
				return t.value, t.shape(tokenUsualName)
			}
		}
		if t, ok := only(jwts); ok {
			return t.value, t.shape(tokenOtherName)
		}
	}
	return "", ""
}

func (t text) shape(onTop string) string {
	if t.depth > 1 {
		return tokenNested
	}
	return onTop
}

// only returns the text if all texts at the least depth have the same value.
func only(texts []text) (text, bool) {
	if len(texts) == 0 {
		return text{}, false
	}
	first := slices.MinFunc(texts, func(a, b text) int { return a.depth - b.depth })
	other := slices.ContainsFunc(texts, func(t text) bool { return t.depth == first.depth && t.value != first.value })
	return first, !other
}
