// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"
)

// answer is what the portal sent, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
	at     time.Time // when it was complete
}

func (a *answer) ok() bool { return a.status >= 200 && a.status < 300 }

// text is a JSON string; a portal that sends a number or boolean instead (ids!) is understood as well, and anything
// else counts as absent rather than spoiling the rest of the answer.
type text string

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (t *text) UnmarshalJSON(raw []byte) error {
	*t = ""
	var s string
	switch {
	case len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || string(raw) == "null":
	case json.Unmarshal(raw, &s) == nil:
		*t = text(s)
	default:
		*t = text(raw)
	}
	return nil
}

func isObject(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '{'
}

func isArray(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '['
}

// items finds the list in an answer: under its key as documented, or bare, or under whatever one key holds an
// array. "Absent" is no empty list: a lookup that answers nothing must not read as "does not exist".
func items(body []byte, key string) ([]json.RawMessage, bool) {
	raw := json.RawMessage(body)
	if isObject(body) {
		var fields map[string]json.RawMessage
		if json.Unmarshal(body, &fields) != nil {
			return nil, false
		}
		raw = listField(fields, key)
	}
	var list []json.RawMessage
	if !isArray(raw) || json.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	return list, true
}

func listField(fields map[string]json.RawMessage, key string) json.RawMessage {
	if raw, ok := fields[key]; ok {
		if string(bytes.TrimSpace(raw)) == "null" {
			return json.RawMessage("[]")
		}
		return raw
	}
	var found json.RawMessage
	for _, raw := range fields {
		if !isArray(raw) {
			continue
		}
		if found != nil {
			return nil // two candidates: no guess
		}
		found = raw
	}
	return found
}

// createdID finds the id of a created resource: at the top, or in the one nested object that has one
// ({"vpc": {"id": ...}} is documented). Two different nested ids are no answer.
func createdID(raw []byte) (string, bool) {
	var fields map[string]json.RawMessage
	if !isObject(raw) || json.Unmarshal(raw, &fields) != nil {
		return "", false
	}
	if id := idOf(raw); id != "" {
		return id, true
	}
	found := ""
	for _, nested := range fields {
		id := ""
		if isObject(nested) {
			id = idOf(nested)
		}
		if id == "" || id == found {
			continue
		}
		if found != "" {
			return "", false
		}
		found = id
	}
	return found, found != ""
}

func idOf(raw []byte) string {
	var v struct {
		ID text `json:"id"`
	}
	_ = json.Unmarshal(raw, &v)
	return string(v.ID)
}

// decodeList reads a list of records, keeping each record's own text for its keep function.
func decodeList[T any](c *call, a *answer, key string, read func(json.RawMessage) (T, bool)) ([]T, error) {
	raws, ok := items(a.body, key)
	if !ok {
		return nil, unreadable(c, a, "no list of "+key)
	}
	list := make([]T, 0, len(raws))
	for _, raw := range raws {
		v, ok := read(raw)
		if !ok {
			return nil, unreadable(c, a, "a record of "+key+" has no id")
		}
		list = append(list, v)
	}
	return list, nil
}
