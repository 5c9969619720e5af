// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "store the fields of today's CRDs as those of the last release")

// released has the fields of the last release, one a line. There is no release yet, so they are those of the last "make released-fields".
const released = "testdata/released-fields.txt"

// TestReleasedFields checks that objects of the last release are valid with today's CRDs: no field is missing, has another type, is required
// now, or lost a value.
func TestReleasedFields(t *testing.T) {
	today := map[string]field{}
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no CRDs", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			collect(today, version.Name+" "+crd.Spec.Names.Kind, false, *version.Schema.OpenAPIV3Schema)
		}
	}
	if *update {
		var lines []string
		for path, f := range today {
			lines = append(lines, path+" "+strings.Join(f, " ")+"\n")
		}
		slices.Sort(lines)
		if err := os.WriteFile(released, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(released)
	if err != nil {
		t.Fatal(err)
	}
	before := map[string]field{}
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(line)
		before[words[0]+" "+words[1]] = words[2:]
	}
	if breaks := incompatible(before, today); len(breaks) > 0 {
		t.Errorf("%s\nObjects of the last release would not be valid any more. Before the first release, run 'make released-fields'. "+
			"After it, add a version with a conversion: docs/development/releasing.md, An incompatible field.", strings.Join(breaks, "\n"))
	}
}

// field is what a field promises: its type, followed by "required" if it is, and its values.
type field []string

func (f field) required() bool { return slices.Contains(f, "required") }

func (f field) values() []string {
	return slices.DeleteFunc(slices.Clone(f[1:]), func(word string) bool { return word == "required" })
}

func collect(all map[string]field, path string, required bool, schema apiextensionsv1.JSONSchemaProps) {
	f := field{cmp.Or(schema.Type, "any")}
	if required {
		f = append(f, "required")
	}
	for _, value := range schema.Enum {
		f = append(f, string(value.Raw))
	}
	all[path] = f
	for name, property := range schema.Properties {
		collect(all, path+"."+name, slices.Contains(schema.Required, name), property)
	}
	if schema.Items != nil {
		collect(all, path+"[]", false, *schema.Items.Schema)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		collect(all, path+"{}", false, *schema.AdditionalProperties.Schema)
	}
}

// incompatible returns what an object of before may have, or may leave out, and may not any more.
func incompatible(before, now map[string]field) (breaks []string) {
	problem := func(format string, args ...any) { breaks = append(breaks, fmt.Sprintf(format, args...)) }
	for path, was := range before {
		is, exists := now[path]
		switch {
		case !exists:
			problem("%s is missing", path)
		case is[0] != was[0]:
			problem("%s is of type %s, was %s", path, is[0], was[0])
		case len(is.values()) > 0 && len(was.values()) == 0,
			slices.ContainsFunc(was.values(), func(v string) bool { return len(is.values()) > 0 && !slices.Contains(is, v) }):
			problem("%s has only the values %v, had %v", path, is.values(), was.values())
		}
	}
	for path, is := range now {
		_, parentExisted := before[path[:max(0, strings.LastIndex(path, "."))]]
		if parentExisted && is.required() && !before[path].required() {
			problem("%s is required", path)
		}
	}
	slices.Sort(breaks)
	return breaks
}
