// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// instead maps an operator to those that are tried in its place.
var instead = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD},
	token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.MUL_ASSIGN: {token.QUO_ASSIGN}, token.QUO_ASSIGN: {token.MUL_ASSIGN},
	token.INC: {token.DEC}, token.DEC: {token.INC},
	token.NOT: {token.ILLEGAL}, // left out
}

// mutant is a source file with one operator changed.
type mutant struct {
	file    string // relative to the checkout
	line    int
	name    string // the file, the declaration and the changed line: it stays the same when lines above it change
	content []byte
}

// mutants lists every mutant of the package in a folder of the checkout, in the order of the source.
func mutants(root, dir string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var list []mutant
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, err := mutate(dir+"/"+filepath.Base(name), source)
		if err != nil {
			return nil, err
		}
		list = append(list, found...)
	}
	return list, nil
}

// mutate lists the mutants of one file.
func mutate(file string, source []byte) ([]mutant, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var list []mutant
	for _, declaration := range tree.Decls {
		ast.Inspect(declaration, func(n ast.Node) bool {
			at, operator := operatorOf(n)
			for _, other := range instead[operator] {
				position := set.Position(at)
				text := other.String()
				if other == token.ILLEGAL {
					text = ""
				}
				content := string(source[:position.Offset]) + text + string(source[position.Offset+len(operator.String()):])
				changed := strings.Split(content, "\n")[position.Line-1]
				list = append(list, mutant{file: file, line: position.Line, content: []byte(content),
					name: fmt.Sprintf("%s: %s: %s", file, nameOf(declaration), strings.Join(strings.Fields(changed), " "))})
			}
			return true
		})
	}
	return list, nil
}

// operatorOf returns the operator of an expression or a statement, and its position.
func operatorOf(n ast.Node) (token.Pos, token.Token) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return n.OpPos, n.Op
	case *ast.UnaryExpr:
		if n.Op == token.SUB || n.Op == token.NOT {
			return n.OpPos, n.Op
		}
	case *ast.IncDecStmt:
		return n.TokPos, n.Tok
	case *ast.AssignStmt:
		return n.TokPos, n.Tok
	}
	return token.NoPos, token.ILLEGAL
}

// nameOf names a function or method; other declarations have a line of their own to be known by.
func nameOf(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok {
		return "declaration"
	}
	return f.Name.Name
}
