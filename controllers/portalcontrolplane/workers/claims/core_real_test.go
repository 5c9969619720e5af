// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestModelIsLikeCore makes the changes of testdata/core.txt, and compares where the model of core comes to rest with where the real core did. The
// world writes that file (TestModelOfCore of test/world). Among Machines that are not Ready core goes by their random names, and the model chooses
// what it chose.
func TestModelIsLikeCore(t *testing.T) {
	text, err := os.ReadFile("testdata/core.txt")
	if err != nil {
		t.Fatal(err)
	}
	for n, history := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		lines := strings.Split(history, "\n")
		d := newDeployment("workers", 0)
		c := &likeCore{w: &world{clock: time.Unix(0, 0), groups: []*deployment{d}}}
		scan(lines[0], "surge %d", &d.surge)
		for i := 1; i < len(lines); i += 2 {
			c.change(lines[i])
			did := strings.TrimSpace(lines[i+1])
			if got := c.rest(did); got != did {
				t.Errorf("history %d, after\n%s\n%s: the model has\n\t%s\nand core has\n\t%s", n, strings.Join(lines[max(0, i-4):i], "\n"), lines[i], got, did)
				break
			}
		}
	}
}

// likeCore is a world in which only core acts, and the changes of a history.
type likeCore struct {
	w        *world
	machines []*model // all that there have ever been: m1 and so on
	nodes    []*kubeNode
}

func scan(line, format string, values ...any) bool {
	n, err := fmt.Sscanf(line, format, values...)
	return err == nil && n == len(values)
}

func (c *likeCore) change(line string) {
	d := c.w.groups[0]
	var number, node, other int
	act, _, _ := strings.Cut(line, " ")
	switch {
	case scan(line, "replicas %d", &number):
		d.replicas = number
	case scan(line, "roll %d", &number):
		d.revise(false)
	case scan(line, "fails n%d", &node), scan(line, "recovers n%d", &node):
		c.nodes[node-1].Ready = act == "recovers"
	case scan(line, "unblock n%d", &node):
		c.nodes[node-1].blocked = false
	case scan(line, "bind m%d n%d", &number, &node), scan(line, "block m%d n%d", &number, &node):
		id := fmt.Sprintf("n%d", node)
		n := &kubeNode{Node: Node{NodeID: NodeID{Name: id, UID: id, ProviderID: id}, Ready: true}, busy: true, blocked: act == "block"}
		c.nodes, c.w.nodes = append(c.nodes, n), append(c.w.nodes, n)
		c.bind(c.machines[number-1], n)
	case scan(line, "take m%d n%d m%d", &number, &node, &other):
		c.machines[other-1].DeleteFirst = true
		c.bind(c.machines[number-1], c.nodes[node-1])
	case scan(line, act+" m%d", &number):
		m := c.machines[number-1]
		switch act {
		case "delete":
			m.Deleting = true
		case "annotate":
			m.DeleteFirst = true
		case "drain":
			m.PreDrain = false
		case "go":
			m.PreDrain, m.PreTerminate = false, false
		case "release":
			m.Claim.ProviderID = "released"
			c.rest("")
			m.NodeRef = ""
		}
	default:
		panic("no such change: " + line)
	}
}

func (c *likeCore) bind(m *model, n *kubeNode) {
	m.PreDrain, m.PreTerminate, m.Claim.ProviderID = true, true, n.ProviderID
}

// rest lets core act until nothing changes, and returns the state. did is what the real core did.
func (c *likeCore) rest(did string) string {
	w, d := c.w, c.w.groups[0]
	stays := func(m *model) bool {
		i := slices.Index(c.machines, m)
		for word := range strings.SplitSeq(did, ", ") {
			if strings.HasPrefix(word, fmt.Sprintf("m%d of ", i+1)) {
				return !strings.Contains(word, "deleting")
			}
		}
		return i < 0
	}
	for last := "none"; c.state() != last; {
		last = c.state()
		for range 3 { // not every step of core shows in the state
			slices.SortStableFunc(w.machines, func(a, b *model) int { return oneIf(stays(a)) - oneIf(stays(b)) })
			w.roll(d)
			w.replicate(d)
			for _, m := range slices.Clone(w.machines) {
				m.known = m.Claim.ProviderID
				w.reconcile(m)
			}
		}
	}
	fresh := filter(w.machines, func(m *model) bool { return !slices.Contains(c.machines, m) })
	slices.SortStableFunc(fresh, func(a, b *model) int { return a.revision - b.revision })
	c.machines = append(c.machines, fresh...)
	return c.state()
}

func (c *likeCore) state() string {
	words := []string{}
	d := c.w.groups[0]
	for _, revision := range slices.Sorted(maps.Keys(d.sets)) {
		if replicas := d.sets[revision]; replicas > 0 {
			words = append(words, fmt.Sprintf("revision %d: %d", revision, replicas))
		}
	}
	for i, m := range c.machines {
		if !slices.Contains(c.w.machines, m) {
			continue
		}
		word := fmt.Sprintf("m%d of %d", i+1, m.revision)
		if m.NodeRef != "" {
			word += " on " + m.NodeRef
		}
		if m.Deleting {
			word += " deleting"
		}
		if m.AtPreTerminate {
			word += " drained"
		}
		words = append(words, word)
	}
	for _, n := range c.nodes {
		if !slices.Contains(c.w.nodes, n) {
			continue
		}
		word := n.Name
		if n.Cordoned {
			word += " cordoned"
		}
		if n.busy {
			word += " busy"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}
