// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ask sends a request to Prometheus's HTTP API and decodes the data of the answer.
func (p prometheus) ask(ctx context.Context, path string, parameters url.Values, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/"+path+"?"+parameters.Encode(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", response.Status, answer.Error)
	}
	return nil
}

// series is one line of a panel.
type series struct {
	Metric map[string]string
	Value  sample   // of an instant query
	Values []sample // of a range
}

// sample is a time and a value, which is text.
type sample [2]any

// query returns the series of an expression that have a number, either now or at any time since the start.
func (p prometheus) query(ctx context.Context, expr string, instant bool, since time.Time) (found []series, err error) {
	var data struct{ Result []series }
	if instant {
		err = p.ask(ctx, "query", url.Values{"query": {expr}}, &data)
	} else {
		second := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
		err = p.ask(ctx, "query_range", url.Values{"query": {expr}, "start": {second(since)}, "end": {second(time.Now())}, "step": {"1"}}, &data)
	}
	for _, s := range data.Result {
		for _, v := range append(s.Values, s.Value) {
			if text, _ := v[1].(string); text != "" && text != "NaN" {
				found = append(found, s)
				break
			}
		}
	}
	return found, err
}

var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// fill replaces Grafana's variables in an expression.
func fill(text string, values map[string]string) string {
	for name, value := range values {
		text = strings.ReplaceAll(text, "$"+name, value)
	}
	return text
}

// choose returns the value that Grafana selects first for each variable, and a $__rate_interval that covers enough scrapes.
func (p prometheus) choose(ctx context.Context, d dashboard) (map[string]string, error) {
	values := map[string]string{"__rate_interval": "15s"}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		parts := labelValues.FindStringSubmatch(fill(v.Query, values))
		if parts == nil {
			return nil, fmt.Errorf("variable %s: %s is not label_values(series, label)", v.Name, v.Query)
		}
		var choices []string
		if err := p.ask(ctx, "label/"+parts[2]+"/values", url.Values{"match[]": {parts[1]}}, &choices); err != nil {
			return nil, fmt.Errorf("variable %s: %w", v.Name, err)
		}
		if len(choices) == 0 {
			return nil, fmt.Errorf("variable %s: %s offers no choice", v.Name, v.Query)
		}
		values[v.Name] = choices[0]
		if v.IncludeAll {
			values[v.Name] = v.AllValue
		}
	}
	return values, nil
}

// unanswered returns the queries of the dashboards that find no number, each with its panel.
func (p prometheus) unanswered(ctx context.Context, dashboards []dashboard, since time.Time) (none []string, asked int) {
	for _, d := range dashboards {
		values, err := p.choose(ctx, d)
		if err != nil {
			none = append(none, d.name+": "+err.Error())
			continue
		}
		for _, panel := range d.Panels {
			for _, target := range panel.Targets {
				asked++
				expr := fill(target.Expr, values)
				if found, err := p.query(ctx, expr, target.Instant, since); err != nil || len(found) == 0 {
					none = append(none, fmt.Sprintf("%s, panel %q, query %s: %d series, %v\n\t%s", d.name, panel.Title, target.RefID, len(found), err, expr))
				}
			}
		}
	}
	return none, asked
}
