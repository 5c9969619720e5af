// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
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

// jsonText is a JSON string. A number or boolean, such as a numeric id, is read as its text. Any other value counts as absent,
// so that the rest of the answer can still be read.
type jsonText string

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (t *jsonText) UnmarshalJSON(raw []byte) error {
	*t = ""
	var s string
	switch {
	case len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || string(raw) == "null":
	case json.Unmarshal(raw, &s) == nil:
		*t = jsonText(s)
	default:
		*t = jsonText(raw)
	}
	return nil
}

func isObject(raw []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{"))
}

func isArray(raw []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(raw), []byte("["))
}

// record is an object of the portal that has an id. The specification shows no other field of most objects, so any of them may be empty.
type record struct {
	ID              jsonText `json:"id"`
	Name            jsonText `json:"name"`
	State           jsonText `json:"state"`
	CIDR            jsonText `json:"cidr"`
	SemanticVersion jsonText `json:"semanticVersion"`

	raw json.RawMessage // the record as the portal sent it
}

// readRecord reports whether the JSON value is an object with an id.
func readRecord(raw json.RawMessage) (record, bool) {
	r := record{raw: raw}
	err := json.Unmarshal(raw, &r)
	return r, err == nil && r.ID != ""
}

// list reads the records that an endpoint lists under the key.
func list[T any](ctx context.Context, c *Client, r route, query url.Values, key string, of func(record) T) ([]T, error) {
	request, a, err := c.ask(ctx, r, "", query)
	if err != nil {
		return nil, err
	}
	raws, shape := items(a.body, key)
	if shape == "" {
		return nil, unreadable(request, a, "no list of "+key)
	}
	c.note(gapList, shape)
	found := make([]T, 0, len(raws))
	for _, raw := range raws {
		r, ok := readRecord(raw)
		if !ok {
			return nil, unreadable(request, a, "a record of "+key+" has no id")
		}
		found = append(found, of(r))
	}
	return found, nil
}
