// SPDX-License-Identifier: Apache-2.0

// Package health reads the pages and examples for GitOps: the table of fields of docs/reference.md, the waits of docs/gitops.md, and the names in
// the health checks of config/examples. It judges objects as the checks do, but does not evaluate them, because they are in the languages of Flux
// and Argo CD.
package health

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Pages are the texts of the repository.
type Pages struct{ gitOps, reference, flux, argoCD string }

// ReadPages reads the texts from the root of the repository.
func ReadPages(root string) (p Pages, err error) {
	for file, text := range map[string]*string{
		"docs/gitops.md": &p.gitOps, "docs/reference.md": &p.reference,
		"config/examples/flux-health.yaml": &p.flux, "config/examples/argocd-health.yaml": &p.argoCD,
	} {
		raw, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return Pages{}, err
		}
		*text = string(raw)
	}
	return p, nil
}

// section returns the text from the heading to the next one.
func section(page, heading string) (string, error) {
	_, text, found := strings.Cut(page, "\n"+heading+"\n")
	if !found {
		return "", fmt.Errorf("the page has no heading %q", heading)
	}
	if end := regexp.MustCompile(`(?m)^#+ `).FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	return text, nil
}

// Waits returns the arguments of the kubectl wait commands of docs/gitops.md.
func (p Pages) Waits() ([][]string, error) {
	text, err := section(p.gitOps, "### kubectl wait")
	if err != nil {
		return nil, err
	}
	var all [][]string
	for line := range strings.Lines(text) {
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
func (p Pages) Fields() (map[string]Row, error) {
	text, err := section(p.reference, "## Who sets which field")
	if err != nil {
		return nil, err
	}
	table := map[string]Row{}
	for line := range strings.Lines(text) {
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
	return table, nil
}
