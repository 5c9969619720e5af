// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"sigs.k8s.io/yaml"
)

// The formats of results.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

var formats = []string{formatTable, formatJSON, formatYAML}

func checkFormat(name string) error {
	if !slices.Contains(formats, name) {
		return fmt.Errorf("--output %q: must be one of %s", name, strings.Join(formats, ", "))
	}
	return nil
}

// table is a result for people.
type table struct {
	header []string // if it is empty, rows are names with their values
	rows   [][]string
}

// print writes a result: the table to people, or the value to programs.
func (a *app) print(value any, t table) error {
	if a.output == formatTable {
		return a.printTable(t)
	}
	return a.printValue(value)
}

func (a *app) printTable(t table) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	if len(t.header) > 0 {
		t.rows = slices.Insert(slices.Clone(t.rows), 0, t.header)
	}
	for _, row := range t.rows {
		cells := make([]string, len(row))
		for i, text := range row {
			cells[i] = cell(text)
		}
		if _, err := fmt.Fprintln(w, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// cell removes control characters from the portal's text, which could rewrite the terminal.
func cell(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if text == "" {
		return "-"
	}
	return text
}

func (a *app) printValue(value any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	text := b.Bytes()
	if a.output == formatYAML {
		var err error
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
	}
	_, err := a.out.Write(text)
	return err
}

// record returns the portal's own record with all its fields. Its id is text, even if the portal sends a number.
func record(raw json.RawMessage, id string) map[string]any {
	fields := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	_ = decoder.Decode(&fields) // the client has read it as an object with an id
	fields["id"] = id
	return fields
}
