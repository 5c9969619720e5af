// SPDX-License-Identifier: Apache-2.0

// Package health reads the table of fields and the names in the health checks from docs/gitops.md, and judges objects as the page describes.
// It does not evaluate the checks, which are in the languages of Flux and Argo CD.
package health

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Page is docs/gitops.md.
type Page struct{ text string }

// ReadPage reads the page from a file.
func ReadPage(file string) (Page, error) {
	text, err := os.ReadFile(file)
	return Page{string(text)}, err
}

// blocks returns the code blocks of a language in the section with the heading.
func (p Page) blocks(heading, language string) ([]string, error) {
	_, section, found := strings.Cut(p.text, "\n"+heading+"\n")
	if !found {
		return nil, fmt.Errorf("the page has no heading %q", heading)
	}
	if end := regexp.MustCompile(`(?m)^#+ `).FindStringIndex(section); end != nil {
		section = section[:end[0]]
	}
	var all []string
	for _, block := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(section, -1) {
		all = append(all, block[1])
	}
	return all, nil
}

// Waits returns the arguments of the kubectl wait commands on the page.
func (p Page) Waits() ([][]string, error) {
	blocks, err := p.blocks("### kubectl wait", "console")
	if err != nil {
		return nil, err
	}
	var all [][]string
	for line := range strings.Lines(strings.Join(blocks, "")) {
		if arguments, found := strings.CutPrefix(line, "$ kubectl wait "); found {
			all = append(all, strings.Fields(arguments))
		}
	}
	return all, nil
}

// Row lists the fields of a kind by owner. Filled fields belong to the user, or to the provider if the user leaves them out.
type Row struct{ User, Filled, Provider, Core []string }

var span = regexp.MustCompile("`([^`]+)`")

// Fields returns the table of fields by kind.
func (p Page) Fields() map[string]Row {
	table := map[string]Row{}
	for line := range strings.Lines(p.text) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 {
			continue
		}
		spans := make([][]string, len(cells))
		for i, cell := range cells {
			for _, found := range span.FindAllStringSubmatch(cell, -1) {
				spans[i] = append(spans[i], found[1])
			}
		}
		if len(spans[1]) == 1 {
			table[spans[1][0]] = Row{spans[2], spans[3], spans[4], spans[5]}
		}
	}
	return table
}
