// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"reflect"
	"slices"
	"strings"
)

// decode reads the call's JSON body into a struct, to the letter: the content type is JSON, every member is one of the
// struct's, spelled the same, of the same type and given once, and members tagged `portal:"required"` are present and
// not empty.
func (c *call) decode(into any) *refusal {
	media, _, err := mime.ParseMediaType(c.request.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return specViolation("Content-Type", "the body must be application/json")
	}
	given, refused := members(c.body)
	if refused != nil {
		return refused
	}
	value := reflect.ValueOf(into).Elem()
	names := make([]string, 0, value.NumField())
	for i := range value.NumField() {
		field := value.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
		raw, there := given[name]
		if there && json.Unmarshal(raw, value.Field(i).Addr().Interface()) != nil {
			return specViolation(name, "%s must be %s", name, jsonType(field.Type))
		}
		required := field.Tag.Get("portal") == "required"
		if required && (!there || string(raw) == "null" || value.Field(i).String() == "") {
			return specViolation(name, "%s is required", name)
		}
	}
	for name := range given {
		if !slices.Contains(names, name) {
			return specViolation(name, "the endpoint does not know parameter %q", name)
		}
	}
	return nil
}

// members splits a JSON object. encoding/json alone would accept other spellings and repeated members.
func members(body []byte) (map[string]json.RawMessage, *refusal) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	malformed := specViolation("", "the body must be one JSON object")
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return nil, malformed
	}
	given := map[string]json.RawMessage{}
	for decoder.More() {
		key, err := decoder.Token()
		name, isString := key.(string)
		if err != nil || !isString {
			return nil, malformed
		}
		if _, twice := given[name]; twice {
			return nil, specViolation(name, "parameter %q is given twice", name)
		}
		var raw json.RawMessage
		if decoder.Decode(&raw) != nil {
			return nil, malformed
		}
		given[name] = raw
	}
	if _, err := decoder.Token(); err != nil {
		return nil, malformed
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, malformed
	}
	return given, nil
}

// jsonType names the type of a member, with its article.
func jsonType(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Int {
		return "an integer"
	}
	return "a " + t.Kind().String()
}
