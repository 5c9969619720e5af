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

// record is an object of an answer that has an id.
type record struct {
	id, name string
	kind     Kind // named by its key, or ""
	depth    int
}

// createdID finds the id of the created resource in an answer, and its shape. The first rule that leaves exactly one id
// decides: the record with the name that was asked for, the record under a key of the kind, the record at the top, the
// only record that is of no other kind. Name and kind may be empty.
func createdID(raw []byte, kind Kind, name string) (id, shape string) {
	all := records(raw, "", 0)
	rules := []func(record) bool{
		func(r record) bool { return name != "" && r.name == name },
		func(r record) bool { return kind != "" && r.kind == kind },
		func(r record) bool { return r.depth == 0 },
		func(r record) bool { return kind == "" || r.kind == "" || r.kind == kind },
	}
	for i, rule := range rules {
		found := selectRecords(all, rule)
		if i == 0 && slices.ContainsFunc(found, rules[1]) {
			found = selectRecords(found, rules[1]) // a network may be named after its cluster
		}
		found = shallowest(found)
		if len(found) == 0 {
			continue
		}
		if slices.ContainsFunc(found, func(r record) bool { return r.id != found[0].id }) {
			return "", "" // several: no guess
		}
		return found[0].id, createdShape(all, found[0])
	}
	return "", ""
}

// createdShape names where the id stood.
func createdShape(all []record, found record) string {
	switch {
	case found.depth == 0:
		return createdOnTop
	case found.depth > 1:
		return createdDeeper
	case slices.ContainsFunc(all, func(r record) bool { return r.depth <= 1 && r.id != found.id }):
		return createdBeside
	}
	return createdNested
}

func selectRecords(all []record, is func(record) bool) []record {
	return slices.DeleteFunc(slices.Clone(all), func(r record) bool { return !is(r) })
}

func shallowest(all []record) []record {
	if len(all) == 0 {
		return nil
	}
	least := slices.MinFunc(all, func(a, b record) int { return a.depth - b.depth }).depth
	return selectRecords(all, func(r record) bool { return r.depth == least })
}

// records returns the objects with an id in a JSON value. key is the key of the value.
func records(raw json.RawMessage, key string, depth int) (found []record) {
	if depth > maxNesting {
		return nil
	}
	if isArray(raw) {
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list) // what cannot be read holds no record
		for _, inner := range list {
			found = append(found, records(inner, key, depth+1)...)
		}
		return found
	}
	var fields map[string]json.RawMessage
	if !isObject(raw) || json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	var own struct {
		ID   jsonText `json:"id"`
		Name jsonText `json:"name"`
	}
	_ = json.Unmarshal(raw, &own) // jsonText fields take any value
	if own.ID != "" {
		found = append(found, record{id: string(own.ID), name: string(own.Name), kind: kindOfKey(key), depth: depth})
	}
	for _, inner := range slices.Sorted(maps.Keys(fields)) {
		found = append(found, records(fields[inner], inner, depth+1)...)
	}
	return found
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

// tokenIn finds the full-access token in the answer of verify-otp, and its shape. The specification says that the answer
// contains a JWT, and does not show where. A usual name decides among several JWTs. Under another name it must be the
// only one. A token that is no JWT is taken under a usual name only. The pre-MFA token is never the answer.
func tokenIn(body []byte, preMFA string) (token, shape string) {
	found := texts(body, "", 0)
	found = slices.DeleteFunc(found, func(f field) bool { return f.value == preMFA || !usableToken(f.value) })
	jwts := slices.DeleteFunc(slices.Clone(found), func(f field) bool { return !isJWT(f.value) })
	for _, among := range [][]field{jwts, found} {
		for _, name := range usualNames {
			named := slices.DeleteFunc(slices.Clone(among), func(f field) bool { return f.name != name })
			if f, ok := only(named); ok {
				return f.value, f.shape(tokenUsualName)
			}
		}
		if f, ok := only(jwts); ok {
			return f.value, f.shape(tokenOtherName)
		}
	}
	return "", ""
}

// field is a string of an answer.
type field struct {
	name, value string
	depth       int
}

func (f field) shape(onTop string) string {
	if f.depth > 1 {
		return tokenNested
	}
	return onTop
}

// only returns the field if all fields have the same value at the least depth.
func only(fields []field) (field, bool) {
	if len(fields) == 0 {
		return field{}, false
	}
	first := slices.MinFunc(fields, func(a, b field) int { return a.depth - b.depth })
	other := slices.ContainsFunc(fields, func(f field) bool { return f.depth == first.depth && f.value != first.value })
	return first, !other
}

// texts are the strings in a JSON value.
func texts(raw json.RawMessage, name string, depth int) (found []field) {
	var value string
	var list []json.RawMessage
	var object map[string]json.RawMessage
	switch {
	case depth > maxNesting:
	case json.Unmarshal(raw, &value) == nil:
		found = append(found, field{name: name, value: value, depth: depth})
	case isArray(raw) && json.Unmarshal(raw, &list) == nil:
		for _, inner := range list {
			found = append(found, texts(inner, name, depth+1)...)
		}
	case isObject(raw) && json.Unmarshal(raw, &object) == nil:
		for key, inner := range object {
			found = append(found, texts(inner, key, depth+1)...)
		}
	}
	return found
}
