// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Gap is something that the specification leaves open ("not shown"), with the shapes that the client accepts.
// Gaps lists them all: it is the one place that knows where the specification is silent.
type Gap struct {
	// Name is stable, for Config.ObserveShape and reports.
	Name string
	// Where the specification is silent.
	Where string
	// Shapes that the client accepts.
	Shapes []Shape
	// Otherwise says what the client makes of any other shape, and what that means for the provider.
	Otherwise string
	// Effect of any other shape.
	Effect Effect
}

// Shape is one way to fill a gap.
type Shape struct {
	Name    string
	Example string
	// Test that holds the client to the shape, as package: test.
	Test string
}

// Effect is what an answer of another shape means for the provider.
type Effect string

// The effects.
const (
	Works       Effect = "works"          // the provider does not depend on it
	NeedsPerson Effect = "needs a person" // conditions say what to do
	Fails       Effect = "will not work"  // the provider cannot use such a portal
)

// Names of gaps that the client reports the shape of.
const (
	gapList        = "list"
	gapCreatedID   = "created id"
	gapOTPToken    = "verify-otp token"
	gapNetwork     = "network creation"
	gapJobError    = "job error"
	GapFind        = "lookup of clusters by name"
	GapLimitHeader = "rate limit headers"
	GapTokenLife   = "token lifetime"
	GapVersion     = "version text"
)

// Names of shapes that the client reports.
const (
	listKeyed    = "under its key"
	listBare     = "bare"
	listOtherKey = "under another key"

	createdNested = "in one nested object"
	createdOnTop  = "at the top"
	createdBeside = "beside other records"
	createdDeeper = "one level deeper"

	tokenUsualName = "under a usual name"
	tokenOtherName = "under another name"
	tokenNested    = "in a nested object"

	networkAtOnce = "at once"
	networkByJob  = "by a job"

	jobErrorObject = "object"
	jobErrorWhole  = "whole error body"
	jobErrorString = "string"

	FindListed   = "answered"
	FindUnknown  = "not answered"
	HeaderAlways = "with every answer"
	HeaderOn429  = "with 429 only"

	LifeInToken    = "in the token"
	LifeNotInToken = "not in the token"

	VersionWithV    = "with v"
	VersionWithoutV = "without v"
)

// Gaps are all places where the specification is silent and the client depends on the answer.
func Gaps() []Gap {
	return append(accessGaps(), resourceGaps()...)
}

func accessGaps() []Gap {
	return []Gap{
		{Name: gapOTPToken, Where: "Authentication endpoints: name of the field that carries the token of verify-otp", Shapes: []Shape{
			{tokenUsualName, `{"token": JWT}, accessToken, access_token, jwt`, "cloud: TestSecondFactor"},
			{tokenOtherName, `{"authToken": JWT}: the only JWT of the answer`, "cloud: TestTokenUnderAnyName"},
			{tokenNested, `{"data": {"session": JWT}}`, "cloud: TestTokenUnderAnyName"},
		}, Otherwise: "With several JWTs under unusual names the client cannot log in a user with MFA.", Effect: Fails},
		{Name: "answer of send-otp", Where: "Authentication endpoints: response body of send-otp", Shapes: []Shape{
			{"any success", "200, 202 or 204, with any body or none", "cloud/faulttest: TestLifeInEachShape"},
		}, Otherwise: "A refusal is one of the login.", Effect: Fails},
		{Name: "refusal of a login", Where: "Errors: code and status that answer wrong credentials", Shapes: []Shape{
			{"401 of any body", "401", "cloud: TestRefusedLoginIsNoAnswerToTheCall"},
			{"any code in the documented body", `400 {"error": {"code": "INVALID_CREDENTIALS"}}`, "cloud: TestRefusedLoginIsNoAnswerToTheCall"},
		}, Otherwise: "Anything else is taken for a server that is not the portal: the condition names baseURL instead of the password.", Effect: NeedsPerson},
		{Name: GapTokenLife, Where: "Authentication 7: whether the token names its own end", Shapes: []Shape{
			{LifeInToken, "claims exp and iat", "cloud: TestRefresh"},
			{LifeNotInToken, "no exp: 8 hours, as documented", "cloud/faulttest: TestLifeInEachShape"},
		}, Otherwise: "A 401 replaces the token, even if the token says that it is valid.", Effect: Works},
		{Name: "pairing of codes and statuses", Where: "Errors: the pairing of each code with an HTTP status", Shapes: []Shape{
			{"a listed code with any status of an error", `500 {"error": {"code": "INSUFFICIENT_CAPACITY"}}`, "cloud: TestListedCodeWithServerError"},
			{"an unlisted code", "its status decides", "cloud/faulttest: TestMatrix"},
		}, Otherwise: "A change that is refused with 5xx and an unlisted code, or without the documented body, may have been carried out: " +
			"a creation is then held for a person.", Effect: NeedsPerson},
		{Name: GapLimitHeader, Where: "Limits 1: whether other answers than 429 carry the headers", Shapes: []Shape{
			{HeaderAlways, "X-RateLimit-Remaining: 49", "cloud/ratelimit: TestRemainingIsFollowed"},
			{HeaderOn429, "a higher tier is learned from the first 429", "cloud: TestTierLearnedFromRefusalsOnly"},
		}, Otherwise: "Without headers the standard tier is assumed, and a 429 slows the provider down for a while.", Effect: Works},
		{Name: "Retry-After", Where: "Limits 1: seconds are documented; HTTP also allows a date", Shapes: []Shape{
			{"seconds", "Retry-After: 5", "cloud: TestRetryAfterOfARefusal"},
			{"date", "Retry-After: Sat, 01 Jan 2000 00:00:05 GMT", "cloud/faulttest: TestLifeInEachShape"},
		}, Otherwise: "X-RateLimit-Reset if the rate limit refused, else the provider's own backoff.", Effect: Works},
	}
}

func resourceGaps() []Gap {
	return []Gap{
		{Name: gapList, Where: "Jobs and other endpoints: form of the list of instances; others have their key", Shapes: []Shape{
			{listKeyed, `{"instances": [...]}`, "cloud: TestObservedShapes"},
			{listBare, `[...]`, "cloud: TestObservedShapes"},
			{listOtherKey, `{"items": [...]}: the only list of the answer`, "cloud: TestObservedShapes"},
		}, Otherwise: "An answer without a list is an error, never an empty list.", Effect: Fails},
		{Name: gapCreatedID, Where: "Job: where the result carries the id of a created cluster or network", Shapes: []Shape{
			{createdNested, `{"kubernetesCluster": {"id": ...}}`, "cloud: TestCreatedIDBesideOthers"},
			{createdOnTop, `{"id": ...}`, "cloud: TestCreatedIDBesideOthers"},
			{createdBeside, `{"kubernetesCluster": {"id": ..., "name": ...}, "network": {"id": ...}}`, "cloud: TestCreatedIDBesideOthers"},
			{createdDeeper, `{"resource": {"kubernetesCluster": {"id": ...}}}`, "cloud: TestCreatedIDBesideOthers"},
		}, Otherwise: "A result without a clear id is an unknown outcome: a person enters the id.", Effect: NeedsPerson},
		{Name: gapNetwork, Where: "Network endpoints: status and form of the answer to POST /networks", Shapes: []Shape{
			{networkAtOnce, "200 or 201 with the record", "cloud/faulttest: TestLifeInEachShape"},
			{networkByJob, "202 with a job", "cloud/faulttest: TestLifeInEachShape"},
		}, Otherwise: "A success without id or job is an unknown outcome: a person enters network.id.", Effect: NeedsPerson},
		{Name: gapJobError, Where: "Job: form of error", Shapes: []Shape{
			{jobErrorObject, `{"code": ..., "message": ...}`, "cloud/faulttest: TestJobs"},
			{jobErrorWhole, `{"error": {"code": ...}}`, "cloud: TestObservedShapes"},
			{jobErrorString, `"CODE: message"`, "cloud/faulttest: TestJobs"},
		}, Otherwise: "The operation has failed for a reason that is not known.", Effect: Works},
		{Name: GapFind, Where: "Limits 4: clients look resources up by name; no endpoint lists clusters", Shapes: []Shape{
			{FindListed, `GET /kubernetes-clusters?name= answers with a list`, "cloud: TestUndocumentedQuestionWithAnExpiredToken"},
			{FindUnknown, "any other answer, 401 and 200 with a page included", "cloud: TestUndocumentedQuestion"},
		}, Otherwise: "After a lost answer to a creation a person looks for the cluster.", Effect: Works},
		{Name: "deletion of a volume", Where: "Jobs and other endpoints: whether DELETE /volumes/{volume_id} is synchronous", Shapes: []Shape{
			{"at once", "200 or 204", "cloud: TestSuccessWithoutABody"},
			{"by a job", "202 with a job", "cloud/faulttest: TestLifeInEachShape"},
		}, Otherwise: "The provider deletes no volumes; portalctl does.", Effect: Works},
		{Name: GapVersion, Where: "Kubernetes version: whether semanticVersion has a leading v, or build metadata", Shapes: []Shape{
			{VersionWithV, "v1.36.3", "cloud/faulttest: TestLifeInEachShape"},
			{VersionWithoutV, "1.36.3+portal.1", "cloud/faulttest: TestLifeInEachShape"},
		}, Otherwise: "A version that is not semantic is not found.", Effect: Fails},
		{Name: "version state", Where: "Kubernetes version: values of state", Shapes: []Shape{
			{"any word", "Enabled, DISABLED, deprecated: the portal decides what it accepts", "test/portals: TestRandomPortals"},
		}, Otherwise: "A version that the portal refuses holds the cluster with the portal's words.", Effect: NeedsPerson},
		{Name: "further fields", Where: "Other records: fields beyond the identifiers", Shapes: []Shape{
			{"any", `{"id": ..., "links": {...}}`, "test/portals: TestRandomPortals"},
		}, Otherwise: "", Effect: Works},
	}
}

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
