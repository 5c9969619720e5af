// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"regexp"
	"strings"
	"testing"
)

var (
	apiType  = regexp.MustCompile(`(?ms)^type (\w+) struct \{\n(.*?)^\}`)
	apiField = regexp.MustCompile("(?m)^\t\\w+ +\\S+ +`json:\"([a-zA-Z]+)")
	apiValue = regexp.MustCompile(`(?m)^\t\w+ +(\w+) += "(\w+)"`)
)

// TestReferenceIsComplete checks that docs/reference.md has every field of the types in api, and every value of a string type with constants. Its
// generator leaves out a field whose type it does not know, without an error.
func TestReferenceIsComplete(t *testing.T) {
	sections := map[string]string{}
	for _, section := range regexp.MustCompile(`(?m)^##+ `).Split(source(t, reference), -1) {
		name, body, _ := strings.Cut(section, "\n")
		sections[name] = body
	}
	fields, values := 0, 0
	enums := regexp.MustCompile(`(?m)^// \+kubebuilder:validation:Enum=\S+\ntype (\w+) string`)
	for _, file := range files(t, "api/v1beta1/*_types.go") {
		text := source(t, file)
		for _, declared := range apiType.FindAllStringSubmatch(text, -1) {
			for _, field := range apiField.FindAllStringSubmatch(declared[2], -1) {
				fields++
				if !strings.HasSuffix(declared[1], "List") && field[1] != "metadata" && !strings.Contains(sections[declared[1]], "\n| `"+field[1]+"`<br />") {
					t.Errorf("docs/reference.md lacks the field %s of %s", field[1], declared[1])
				}
			}
		}
		for _, value := range apiValue.FindAllStringSubmatch(text, -1) {
			values++
			if !strings.Contains(sections[value[1]], "\n| `"+value[2]+"` |") {
				t.Errorf("docs/reference.md lacks the value %s of %s", value[2], value[1])
			}
		}
		for _, enum := range enums.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(sections[enum[1]], "| Value |") {
				t.Errorf("docs/reference.md has no values of %s: declare a constant for each", enum[1])
			}
		}
	}
	if fields < 80 || values < 8 {
		t.Errorf("only %d fields and %d values were found", fields, values)
	}
}
