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
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '{'
}

func isArray(raw []byte) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && raw[0] == '['
}

// decodeList reads a list of records, keeping each record's own text for its keep function.
func decodeList[T any](c *call, a *answer, key string, read func(json.RawMessage) (T, bool)) ([]T, error) {
	raws, shape := items(a.body, key)
	if shape == "" {
		return nil, unreadable(c, a, "no list of "+key)
	}
	c.note(gapList, shape)
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
