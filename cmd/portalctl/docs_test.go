// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestDocs: the documentation describes everything that scripts depend on, in the words of the help.
func TestDocs(t *testing.T) {
	content, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	has := func(what string) {
		if !strings.Contains(string(content), what) {
			t.Errorf("docs/reference.md lacks %s", what)
		}
	}
	for _, m := range exitMeanings {
		has(fmt.Sprintf("| %d | %s |", m.code, m.meaning))
	}
	for _, variable := range []string{urlVariable, emailVariable, caFileVariable, passwordVariable, seedVariable} {
		has("`" + variable + "`")
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if path := strings.TrimPrefix(cmd.CommandPath(), "portalctl "); !cmd.HasSubCommands() && cmd.Runnable() {
			has("`" + path)
		}
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk((&app{}).root())
}
