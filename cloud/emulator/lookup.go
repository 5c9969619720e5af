// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// lookupRoute is GET /kubernetes-clusters, which the specification does not know. A portal may list clusters there, or
// answer anything at all.
func (p *Portal) lookupRoute() (route, bool) {
	r := route{method: http.MethodGet, pattern: "/kubernetes-clusters", access: full, query: []string{"name"}, serve: p.listClusters}
	if p.opts.Shapes.LookupStatus != 0 {
		r.serve = p.answerLookup
	}
	return r, p.opts.ListClusters || p.opts.Shapes.LookupStatus != 0
}

// answerLookup answers with Shapes.LookupStatus, never with a list.
func (p *Portal) answerLookup(c *call) (answer, *refusal) {
	status := p.opts.Shapes.LookupStatus
	if status == http.StatusOK {
		return answer{status: status, body: map[string]string{"message": "welcome"}, page: p.opts.Shapes.LookupPage}, nil
	}
	refused := refuse(defaultCode(status), "the portal has no such endpoint").as(status)
	a := refused.answer(&Shapes{}, c.id) // a pairing of codes and statuses does not apply to it
	a.page = p.opts.Shapes.LookupPage
	return a, nil
}

// encode writes an answer's body as JSON, with extra members and numbers as text if the shapes ask for them.
func (c *call) encode(a answer) ([]byte, error) {
	payload, err := json.Marshal(a.body)
	if err == nil && c.portal.opts.Shapes.NumbersAsText {
		payload, err = quoteNumbers(payload)
	}
	if err != nil || !c.portal.opts.Shapes.ExtraFields {
		return payload, err
	}
	object := map[string]json.RawMessage{}
	if !bytes.HasPrefix(payload, []byte("{")) { // a list stays as it is
		return payload, nil
	}
	if err := json.Unmarshal(payload, &object); err != nil {
		return nil, err
	}
	object["apiRevision"] = json.RawMessage(`7`)
	object["links"] = json.RawMessage(`{"self":"/here","documentation":"https://portal.example/docs"}`)
	return json.Marshal(object)
}

// quoteNumbers writes the numbers of a JSON value as strings.
func quoteNumbers(payload []byte) ([]byte, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return json.Marshal(textOf(value))
}

func textOf(value any) any {
	switch value := value.(type) {
	case json.Number:
		return value.String()
	case []any:
		for i := range value {
			value[i] = textOf(value[i])
		}
	case map[string]any:
		for name := range value {
			value[name] = textOf(value[name])
		}
	}
	return value
}
