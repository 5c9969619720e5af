// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// node returns Node n1, n2, … It is Ready, has a providerID, and is younger the higher its number.
func node(name string, change ...func(*Node)) Node {
	var age int
	_, _ = fmt.Sscanf(name, "n%d", &age)
	n := Node{Name: name, UID: "uid-" + name, ProviderID: "cloud://" + name, Batch: name, Ready: true, Created: epoch.Add(time.Duration(age) * time.Minute)}
	for _, c := range change {
		c(&n)
	}
	return n
}

func notReady(n *Node)   { n.Ready = false }
func fresh(n *Node)      { n.Created = epoch.Add(time.Hour) }
func tainted(n *Node)    { n.TaintedByAutoscaler = true }
func cordoned(n *Node)   { n.Cordoned = true }
func gone(n *Node)       { n.Cordoned, n.Drained = true, epoch }
func just(n *Node)       { n.Cordoned, n.Drained = true, epoch.Add(time.Hour) }
func evicting(n *Node)   { n.Cordoned, n.DrainStarted = true, epoch }
func sick(n *Node)       { n.HasUnhealthyCondition = true }
func remediated(n *Node) { n.Remediated = epoch }
func nameless(n *Node)   { n.ProviderID = "" }

// uninitialized is a Node that waits for the portal's cloud controller, which sets its providerID.
func uninitialized(n *Node) { n.ProviderID, n.Uninitialized = "", true }
func reborn(n *Node)        { n.UID += "-again" }

// machine returns Machine m1, m2, … It holds the given node ("" for none) and is younger the higher its number.
func machine(name, on string, change ...func(*Machine)) Machine {
	var age int
	_, _ = fmt.Sscanf(name, "m%d", &age)
	m := Machine{Name: name, Created: epoch.Add(time.Duration(age) * time.Minute)}
	if on != "" {
		m.PreDrain, m.PreTerminate = true, true
		m.ClaimNode, m.ClaimNodeUID, m.ClaimProviderID = on, "uid-"+on, "cloud://"+on
		m.ProviderID, m.NodeRef = m.ClaimProviderID, on
	}
	for _, c := range change {
		c(&m)
	}
	return m
}

func deleting(m *Machine) { m.Deleting = true }
func draining(m *Machine) { m.Deleting, m.PreDrain = true, false }
func drained(m *Machine)  { m.Deleting, m.PreDrain, m.Drained = true, false, true }
func skipped(m *Machine)  { m.Deleting, m.PreDrain, m.Drained, m.DrainSkipped = true, false, true, true }
func ruled(note string) func(*Machine) {
	return func(m *Machine) { m.DrainRules = note }
}
func detached(m *Machine) {
	m.ClaimProviderID = ReleasedProviderID("c1", m.Name)
	m.Deleting = true
}
func shown(m *Machine)     { m.ProviderID = m.ClaimProviderID }
func kept(m *Machine)      { m.Deleting = false }
func blank(m *Machine)     { m.ProviderID, m.NodeRef = "", "" }
func orphaned(m *Machine)  { m.PortalMachineDeleted = true }
func outdated(m *Machine)  { m.Outdated = true }
func first(m *Machine)     { m.DeleteFirst = true }
func shielded(m *Machine)  { m.Shielded = true }
func unhealthy(m *Machine) { m.Unhealthy = true }
func mismatch(m *Machine)  { m.TemplateMismatch = true }
func of(owner string) func(*Machine) {
	return func(m *Machine) { m.Owner, m.MachineSet = owner, owner+"-1" }
}
func last(set string) func(*Node) { return func(n *Node) { n.LastMachineSet = set } }

// was sets the Machine's nodeRef and providerID back to its previous node, as core shows them for a moment.
func was(node string) func(*Machine) {
	return func(m *Machine) { m.NodeRef, m.ProviderID = node, "cloud://"+node }
}
func forgotten(m *Machine)  { m.NodeRef = "" }
func hooked(m *Machine)     { m.PreDrain, m.PreTerminate = true, true }
func noPreDrain(m *Machine) { m.PreDrain = false }
func ref(node string) func(*Machine) {
	return func(m *Machine) { m.NodeRef = node }
}

// onNodes and onMachines are the changes that see knows, and worth are those that need a value, as in "was=n3".
var (
	onNodes = map[string]func(*Node){
		"notReady": notReady, "away": away, "recent": recent, "lost": lost, "fresh": fresh, "young": young, "reborn": reborn, "nameless": nameless,
		"uninitialized": uninitialized, "tainted": tainted, "cordoned": cordoned, "evicting": evicting, "gone": gone, "just": just, "asked": asked,
		"sick": sick, "remediated": remediated, "pinned": pinned, "protected": protected, "usersTrue": usersTrue, "usersOwn": usersOwn,
	}
	onMachines = map[string]func(*Machine){
		"deleting": deleting, "draining": draining, "drained": drained, "skipped": skipped, "passed": passed, "detached": detached, "shown": shown,
		"forgotten": forgotten, "kept": kept, "blank": blank, "orphaned": orphaned, "outdated": outdated, "first": first, "shielded": shielded,
		"unhealthy": unhealthy, "mismatch": mismatch, "hooked": hooked, "unhooked": unhooked, "noPreDrain": noPreDrain,
	}
	worthNode    = map[string]func(string) func(*Node){"last": last, "sameIDAs": sameIDAs}
	worthMachine = map[string]func(string) func(*Machine){"of": of, "was": was, "ref": ref, "ruled": ruled}
)

// see returns the View that the words describe, such as "2/3 Oldest n1 n2:gone m1/n1 m2:of=a pool=1:n2": two workers are desired, the portal
// accepted three, and it removes the oldest. Machine m1 is on Node n1, and the pool of one replica lists n2.
func see(words string) (v View) {
	for _, word := range strings.Fields(words) {
		name, rest, _ := strings.Cut(word, ":")
		changes := strings.FieldsFunc(rest, func(r rune) bool { return r == ':' })
		object, on, _ := strings.Cut(name, "/")
		_, number, _ := strings.Cut(name, "=")
		n, _ := strconv.Atoi(number)
		switch {
		case name == string(Newest) || name == string(Oldest) || name == string(Random):
			v.Order = Order(name)
		case name == "ending":
			v.Pool = ending(changes...)
		case strings.HasPrefix(name, "pool="):
			v.Pool = pool(n, changes...)
		case strings.HasPrefix(name, "target="):
			v.Target = n
		case onClusters[name] != nil:
			onClusters[name](&v)
		case strings.HasPrefix(name, "n"):
			v.Nodes = append(v.Nodes, node(name, changesOf(changes, onNodes, worthNode)...))
		case strings.HasPrefix(name, "m"):
			v.Machines = append(v.Machines, machine(object, on, changesOf(changes, onMachines, worthMachine)...))
		default:
			if _, err := fmt.Sscanf(name, "%d/%d", &v.Desired, &v.Size); err != nil {
				panic("nothing is called " + word)
			}
		}
	}
	return v
}

var onClusters = map[string]func(*View){
	"adding": func(v *View) { v.Activity = AddingNodes }, "removing": func(v *View) { v.Activity = RemovingNodes },
	"replacing": func(v *View) { v.Activity = ReplacingNodes }, "uncertain": func(v *View) { v.SizeUncertain = true },
	"assumed": func(v *View) { v.OrderAssumed = true }, "answerLost": func(v *View) { v.AnswerLost = true },
	"mayResend": func(v *View) { v.MayResend = true }, "autoscaled": func(v *View) { v.Autoscaled = true },
	"adopted": func(v *View) { v.Adopted = true }, "scaledDown": func(v *View) { v.ScaledDown = true }, "unasked": func(v *View) { v.Unasked = true },
}

func changesOf[T any](words []string, known map[string]func(*T), worth map[string]func(string) func(*T)) (all []func(*T)) {
	for _, word := range words {
		change := known[word]
		if name, value, found := strings.Cut(word, "="); found {
			change = worth[name](value)
		}
		if change == nil {
			panic("nothing changes with " + word)
		}
		all = append(all, change)
	}
	return all
}

// brief formats a write for a reader: all that it changes, and the object.
func (w Write) brief() string {
	m, n := w.Machine, w.Node
	switch w.Step {
	case WriteList:
		return strings.Join(append([]string{"list"}, w.List...), " ")
	case WriteNode:
		return nodeWords(n.Seen, n.Want) + " " + n.Seen.Name
	case WriteMachine:
		return machineWords(m.Seen, m.Want) + " " + m.Seen.Name
	case WriteClaim:
		return claimWords(m.Seen, m.Want)
	case WriteNodeRef:
		return strings.TrimSuffix(either(m.Want.NodeRef == "", "forget ", "point ")+m.Seen.Name+"/"+m.Want.NodeRef, "/")
	}
	return either(w.Step == DrainNode, "evict ", "delete ") + n.Seen.Name
}

func nodeWords(seen, want Node) string {
	var words changes
	words.add(seen.ProviderID != want.ProviderID, "name")
	words.add(seen.DrainState != want.DrainState, either(want.DrainState == DrainState{}, "uncordon", "mark"))
	words.add(seen.DrainRules != want.DrainRules, "note")
	words.add(seen.Batch != want.Batch, "batch")
	words.add(seen.Remediated != want.Remediated, either(want.Remediated.IsZero(), "forget-remediated", "remediated"))
	words.add(seen.ScaleDownDisabled != want.ScaleDownDisabled, either(want.ScaleDownDisabled, "protect", "unprotect"))
	return strings.Join(words, "+")
}

func machineWords(seen, want Machine) string {
	var words changes
	words.add(want.PreDrain && want.PreTerminate && !(seen.PreDrain && seen.PreTerminate), "hooks")
	words.add(seen.PreDrain && !want.PreDrain && want.PreTerminate == seen.PreTerminate, "drain")
	words.add(!want.PreDrain && seen.PreTerminate && !want.PreTerminate, "remove-hooks")
	words.add(seen.DeleteFirst != want.DeleteFirst, "delete-first")
	words.add(seen.Shielded != want.Shielded, either(want.Shielded, "shield", "unshield"))
	return strings.Join(words, "+")
}

func claimWords(seen, want Machine) string {
	if IsReleased(want.ClaimProviderID) {
		return "detach " + seen.Name
	}
	return either(seen.Deleting, "swap ", "bind ") + seen.Name + "/" + want.ClaimNode
}

// changes are the words of one write.
type changes []string

func (c *changes) add(differs bool, word string) {
	if differs {
		*c = append(*c, word)
	}
}

func either(yes bool, word, other string) string {
	if yes {
		return word
	}
	return other
}

// summary formats a plan for a reader.
func summary(p Plan) string {
	var words []string
	for _, w := range p.Writes {
		words = append(words, w.brief())
	}
	if p.Scale {
		words = append(words, fmt.Sprintf("scale %d", p.Size))
	}
	return strings.Join(words, ", ")
}
