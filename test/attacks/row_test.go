// SPDX-License-Identifier: Apache-2.0

package attacks

import (
	"fmt"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// row is one attack.
type row struct {
	// attack describes what the tenant tries.
	attack string
	// heldBy is the control that must stop the attack.
	heldBy string
	// attempt tries the attack, and returns the harm that it did, or "".
	attempt func(*tenant) string
	// alone is true if the attack uses so many resources that it would disturb other rows.
	alone bool
	// nightly is true if a faster test makes the same promise. The row adds that the manager keeps it.
	nightly bool
}

// Prefixes of the controls that -without-controls removes.
const (
	policy  = "policy "
	flagged = "flag "
)

// removed reports whether this run is without the row's control.
func (r row) removed() bool {
	return *withoutControls && (strings.HasPrefix(r.heldBy, policy) || strings.HasPrefix(r.heldBy, flagged))
}

// rows returns the rows of the table in order.
func rows() []row {
	return slices.Concat(kubeconfigs(), adoptions(), identities(), hosts(), answers(), diagnostics())
}

// harms holds the result of each attempt for the log.
var (
	harmsMu sync.Mutex
	harms   = map[string]string{}
)

// TestAttacks tries all rows. Rows that would disturb others run last.
func TestAttacks(t *testing.T) {
	t.Cleanup(func() { report(t) })
	t.Run("together", func(t *testing.T) {
		for i, r := range rows() {
			if !r.alone {
				t.Run(r.attack, func(t *testing.T) {
					t.Parallel()
					r.live(t, i)
				})
			}
		}
	})
	for i, r := range rows() {
		if r.alone {
			t.Run(r.attack, func(t *testing.T) { r.live(t, i) })
		}
	}
}

// live tries the attack. It fails the test if the attack does harm or, without the control, if the attack does none.
func (r row) live(t *testing.T, number int) {
	if *withoutControls && !r.removed() {
		t.Skipf("the control %q cannot be removed", r.heldBy)
	}
	if r.nightly {
		suite.Nightly(t)
	}
	begin := time.Now()
	harm := r.attempt(newTenant(t, number))
	harmsMu.Lock()
	harms[r.attack] = fmt.Sprintf("%5.1f s  %s", time.Since(begin).Seconds(), harm)
	harmsMu.Unlock()
	switch {
	case harm != "" && !r.removed():
		t.Errorf("the attack succeeded, so %q does not hold: %s", r.heldBy, harm)
	case harm == "" && r.removed():
		t.Errorf("the attack failed without %q, so it shows nothing", r.heldBy)
	}
}

// report logs the result of each attack.
func report(t *testing.T) {
	harmsMu.Lock()
	defer harmsMu.Unlock()
	for _, attack := range slices.Sorted(maps.Keys(harms)) {
		t.Logf("%s: %s", attack, harms[attack])
	}
}

// TestTable checks that the table in doc.go equals the rows.
func TestTable(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var table []string
	for _, block := range new(comment.Parser).Parse(file.Doc.Text()).Content {
		if code, ok := block.(*comment.Code); ok && strings.Contains(code.Text, separator) {
			table = strings.Split(strings.TrimSuffix(code.Text, "\n"), "\n")
		}
	}
	width := 0
	for _, r := range rows() {
		width = max(width, len(r.attack))
	}
	var want []string
	for _, r := range rows() {
		want = append(want, fmt.Sprintf("%-*s%s%s", width, r.attack, separator, r.heldBy))
	}
	if !slices.Equal(table, want) {
		t.Errorf("the table in doc.go differs from the rows. It should be:\n%s", strings.Join(want, "\n"))
	}
	if len(want) < 23 {
		t.Errorf("got %d attacks, want at least 23", len(want))
	}
}

// separator separates the columns of the table.
const separator = " | "
