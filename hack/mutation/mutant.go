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

// instead maps each operator to the operators that are tried in its place.
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
	token.NOT: {token.ILLEGAL}, // removed
}

// site is an operator in a source file that can be changed.
type site struct {
	from, at, to int // offsets of the whole expression or statement, and of its operator
	line         int
	operator     token.Token
	constant     bool // part of a constant declaration, so each value needs a program of its own
	mutants      []*mutant
}

// mutant is a site with another operator.
type mutant struct {
	id       int // in its package, from 1
	file     string
	site     *site
	operator token.Token
	name     string // the file, the declaration and the changed line: stable when lines above it change
}

// source is a file of the package, with its sites.
type source struct {
	file    string // relative to the checkout
	content string
	sites   []*site
}

// sources reads the package in a folder of the checkout and numbers its mutants.
func sources(root, dir string) ([]*source, error) {
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var list []*source
	id := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s := &source{file: dir + "/" + filepath.Base(name), content: string(content)}
		if err := s.find(&id); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// find lists the sites of the file, each before the sites inside it.
func (s *source) find(id *int) error {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, s.file, s.content, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, declaration := range tree.Decls {
		d, general := declaration.(*ast.GenDecl)
		ast.Inspect(declaration, func(n ast.Node) bool {
			at, operator := operatorOf(n)
			if len(instead[operator]) == 0 {
				return true
			}
			found := &site{
				from: set.Position(n.Pos()).Offset, at: set.Position(at).Offset, to: set.Position(n.End()).Offset,
				line: set.Position(at).Line, operator: operator, constant: general && d.Tok == token.CONST,
			}
			for _, other := range instead[operator] {
				*id++
				m := &mutant{id: *id, file: s.file, site: found, operator: other}
				changed := strings.Split(s.with(m), "\n")[found.line-1]
				m.name = fmt.Sprintf("%s: %s: %s", s.file, nameOf(declaration), strings.Join(strings.Fields(changed), " "))
				found.mutants = append(found.mutants, m)
			}
			s.sites = append(s.sites, found)
			return true
		})
	}
	return nil
}

// with returns the file with the mutant's operator.
func (s *source) with(m *mutant) string {
	text := m.operator.String()
	if m.operator == token.ILLEGAL {
		text = ""
	}
	return s.content[:m.site.at] + text + s.content[m.site.at+len(m.site.operator.String()):]
}

// operatorOf returns the operator of an expression or a statement, and its position.
func operatorOf(n ast.Node) (token.Pos, token.Token) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return n.OpPos, n.Op
	case *ast.UnaryExpr:
		if n.Op == token.NOT || n.Op == token.SUB {
			return n.OpPos, n.Op
		}
	case *ast.IncDecStmt:
		return n.TokPos, n.Tok
	case *ast.AssignStmt:
		return n.TokPos, n.Tok
	}
	return token.NoPos, token.ILLEGAL
}

// nameOf returns the name of a function or method. Other declarations are identified by their line.
func nameOf(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok {
		return "declaration"
	}
	return f.Name.Name
}
