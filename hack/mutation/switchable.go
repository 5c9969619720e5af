// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"go/token"
	"slices"
	"strings"
)

// runtimeSource is added to a package whose mutants are switched on by the environment, one at a time, so that one build serves all of
// them.
const runtimeSource = `package %s

import (
	"cmp"
	"os"
	"strconv"
)

var mutationID, _ = strconv.Atoi(os.Getenv("MUTANT"))

func mutationOn(id int) bool { return id == mutationID }

type mutationNumber interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// A function per operator, with the number of the mutant that has the other one.

func mutationLSS[T cmp.Ordered](id int, a, b T) bool { return a < b || a == b && mutationOn(id) }
func mutationLEQ[T cmp.Ordered](id int, a, b T) bool { return a < b || a == b && !mutationOn(id) }
func mutationGTR[T cmp.Ordered](id int, a, b T) bool { return a > b || a == b && mutationOn(id) }
func mutationGEQ[T cmp.Ordered](id int, a, b T) bool { return a > b || a == b && !mutationOn(id) }
func mutationLAND(id int, a bool, b func() bool) bool {
	if mutationOn(id) {
		return a || b()
	}
	return a && b()
}
func mutationLOR(id int, a bool, b func() bool) bool {
	if mutationOn(id) {
		return a && b()
	}
	return a || b()
}
func mutationNEG[T mutationNumber](id int, a T) T {
	if mutationOn(id) {
		return -a
	}
	return a
}
func mutationADD[T mutationNumber](id int, a, b T) T {
	if mutationOn(id) {
		return a - b
	}
	return a + b
}
func mutationSUB[T mutationNumber](id int, a, b T) T {
	if mutationOn(id) {
		return a + b
	}
	return a - b
}
func mutationMUL[T mutationNumber](id int, a, b T) T {
	if mutationOn(id) {
		return a / b
	}
	return a * b
}
func mutationQUO[T mutationNumber](id int, a, b T) T {
	if mutationOn(id) {
		return a * b
	}
	return a / b
}
`

// functionOf maps each operator to its function in runtimeSource.
var functionOf = map[token.Token]string{
	token.LSS: "mutationLSS", token.LEQ: "mutationLEQ", token.GTR: "mutationGTR", token.GEQ: "mutationGEQ",
	token.LAND: "mutationLAND", token.LOR: "mutationLOR",
	token.ADD: "mutationADD", token.SUB: "mutationSUB", token.MUL: "mutationMUL", token.QUO: "mutationQUO",
}

// edit replaces a part of a file. Insertions at the same offset keep their order: the end of an inner expression comes before the end of an
// outer one.
type edit struct {
	from, to int
	text     string
}

// switchable returns the file with its sites rewritten so that each mutant can be switched on. It leaves out sites on excluded lines. Line
// numbers and the shape of expressions stay: a && b && c becomes (a || b) && c.
func (s *source) switchable(excluded map[int]bool) string {
	var opening, closing []edit
	for _, at := range s.sites {
		if at.constant || excluded[at.line] {
			continue
		}
		before, between, after, ok := at.rewritten()
		if !ok {
			continue
		}
		opening = append(opening, edit{at.from, at.from, before})
		if between != "" {
			opening = append(opening, edit{at.at, at.at + len(at.operator.String()), between})
		}
		closing = append([]edit{{at.to, at.to, after}}, closing...)
	}
	edits := append(closing, opening...)
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var text strings.Builder
	last := 0
	for _, e := range edits {
		text.WriteString(s.content[last:e.from] + e.text)
		last = e.to
	}
	return text.String() + s.content[last:]
}

// rewritten returns the text that goes before the expression, in the place of its operator, and after the expression. It returns false for
// a kind of site that cannot be rewritten. The mutants of such a site are built one by one.
func (at *site) rewritten() (before, between, after string, ok bool) {
	first := at.mutants[0].id
	function := functionOf[at.operator]
	switch at.operator {
	case token.EQL, token.NEQ, token.NOT:
		return "((", "", fmt.Sprintf(") != mutationOn(%d))", first), true
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		return fmt.Sprintf("(%s(%d, ", function, first), ",", fmt.Sprintf(") != mutationOn(%d))", at.mutants[1].id), true
	case token.LAND, token.LOR:
		return fmt.Sprintf("%s(%d, ", function, first), ", func() bool { return (", ") })", true
	case token.ADD, token.SUB, token.MUL, token.QUO:
		return fmt.Sprintf("%s(%d, ", function, first), ",", ")", at.at > at.from
	case token.ADD_ASSIGN, token.SUB_ASSIGN:
		return "", fmt.Sprintf("%s mutationNEG(%d, ", at.operator, first), ")", true
	case token.INC:
		return "", fmt.Sprintf("+= mutationNEG(%d, 1)", first), "", true
	case token.DEC:
		return "", fmt.Sprintf("-= mutationNEG(%d, 1)", first), "", true
	}
	return "", "", "", false
}
