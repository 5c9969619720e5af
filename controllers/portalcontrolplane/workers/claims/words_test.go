// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/removal"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// minutes is a time in the hour after epoch. Plans are made at its end.
func minutes(n float64) time.Time { return epoch.Add(time.Duration(n * float64(time.Minute))) }

// node returns Node n1, n2, … It is Ready, has a providerID, and is younger the higher its number.
func node(name string) Node {
	var age int
	_, _ = fmt.Sscanf(name, "n%d", &age)
	return Node{NodeID: NodeID{Name: name, UID: "uid-" + name, ProviderID: "cloud://" + name}, Batch: name, BatchNoted: name, Ready: true, Created: minutes(float64(age))}
}

// machine returns Machine m1, m2, … It holds the given node ("" for none) and is younger the higher its number.
func machine(name, on string) Machine {
	var age int
	_, _ = fmt.Sscanf(name, "m%d", &age)
	m := Machine{Name: name, Created: minutes(float64(age))}
	if on != "" {
		m.PreDrain, m.PreTerminate = true, true
		m.Claim.Name, m.Claim.UID, m.Claim.ProviderID = on, "uid-"+on, "cloud://"+on
		m.ProviderID, m.NodeRef = m.Claim.ProviderID, on
	}
	return m
}

// onNodes, onMachines and onClusters are the changes that see knows. Some need a value, as in "was=n3".
var (
	onNodes = map[string]func(n *Node, value string){
		"notReady":      func(n *Node, _ string) { n.Ready = false },
		"lost":          func(n *Node, _ string) { n.Ready, n.NotReadySince = false, minutes(50) },
		"away":          func(n *Node, _ string) { n.Ready, n.NotReadySince = false, minutes(10) },
		"longGone":      func(n *Node, _ string) { n.Ready, n.NotReadySince = false, epoch },
		"recent":        func(n *Node, _ string) { n.Ready, n.NotReadySince = false, minutes(56) },
		"five":          func(n *Node, _ string) { n.Ready, n.Cordoned, n.NotReadySince = false, true, minutes(55) },
		"minute":        func(n *Node, _ string) { n.Ready, n.Created = false, minutes(59) },
		"young":         func(n *Node, _ string) { n.Created = minutes(59.5) },
		"fresh":         func(n *Node, _ string) { n.Created = minutes(60) },
		"reborn":        func(n *Node, _ string) { n.UID += "-again" },
		"nameless":      func(n *Node, _ string) { n.ProviderID = "" },
		"uninitialized": func(n *Node, _ string) { n.ProviderID, n.Uninitialized = "", true }, // the portal's cloud controller sets its providerID
		"sameIDAs":      func(n *Node, other string) { n.ProviderID = "cloud://" + other },
		"last":          func(n *Node, owner string) { n.LastOwner = owner },
		"tainted":       func(n *Node, _ string) { n.TaintedByAutoscaler = true },
		"cordoned":      func(n *Node, _ string) { n.Cordoned = true },
		"failed":        func(n *Node, _ string) { n.Cordoned, n.Ready = true, false },
		"evicting":      func(n *Node, _ string) { n.Cordoned, n.DrainStarted = true, epoch },
		"gone":          func(n *Node, _ string) { n.Cordoned, n.Drained = true, epoch },
		"lately":        func(n *Node, _ string) { n.Cordoned, n.Drained = true, minutes(59) },
		"asked":         func(n *Node, _ string) { n.Cordoned, n.Drained = true, minutes(59.5) }, // joinTime is not over
		"just":          func(n *Node, _ string) { n.Cordoned, n.Drained = true, minutes(60) },
		"refused":       func(n *Node, _ string) { n.Refused = true },
		"pinned":        func(n *Node, _ string) { n.Pinned = true },
		"protected":     func(n *Node, _ string) { n.ScaleDownDisabled = true },
		"usersTrue":     func(n *Node, _ string) { n.ScaleDownSetByUser, n.Pinned = true, true },
		"usersOwn":      func(n *Node, _ string) { n.ScaleDownSetByUser = true },
		"old":           func(n *Node, _ string) { n.Batch, n.BatchNoted, n.Created = "", "", epoch },
		"made": func(n *Node, second string) {
			n.Batch, n.BatchNoted, n.Created = "a", "a", epoch.Add(100*time.Second+time.Duration(number(second))*time.Second)
		},
		"by":    func(n *Node, operation string) { n.Batch, n.BatchNoted = operation, operation },
		"found": func(n *Node, operation string) { n.Batch, n.BatchNoted = operation, "" },
		"at":    func(n *Node, position string) { n.Position = number(position) },
	}
	onMachines = map[string]func(m *Machine, value string){
		"deleting": func(m *Machine, _ string) { m.Deleting = true },
		"draining": func(m *Machine, _ string) { m.Deleting, m.PreDrain = true, false },
		"drained":  func(m *Machine, _ string) { m.Deleting, m.PreDrain, m.AtPreTerminate = true, false, true },
		"skipped": func(m *Machine, _ string) {
			m.Deleting, m.PreDrain, m.AtPreTerminate, m.DrainSkipped = true, false, true, true
		},
		"passed":     func(m *Machine, _ string) { m.Deleting, m.AtPreTerminate = true, true }, // core went past the pre-drain hook without a drain
		"detached":   func(m *Machine, _ string) { m.Claim.ProviderID, m.Deleting = ReleasedProviderID("c1", m.Name), true },
		"shown":      func(m *Machine, _ string) { m.ProviderID = m.Claim.ProviderID },
		"was":        func(m *Machine, node string) { m.NodeRef, m.ProviderID = node, "cloud://"+node }, // core still shows its previous node
		"ref":        func(m *Machine, node string) { m.NodeRef = node },
		"blank":      func(m *Machine, _ string) { m.ProviderID, m.NodeRef = "", "" },
		"forgotten":  func(m *Machine, _ string) { m.NodeRef = "" },
		"kept":       func(m *Machine, _ string) { m.Deleting = false },
		"hooked":     func(m *Machine, _ string) { m.PreDrain, m.PreTerminate = true, true },
		"unhooked":   func(m *Machine, _ string) { m.PreDrain, m.PreTerminate = false, false },
		"noPreDrain": func(m *Machine, _ string) { m.PreDrain = false },
		"orphaned":   func(m *Machine, _ string) { m.PortalMachineDeleted = true },
		"outdated":   func(m *Machine, _ string) { m.Outdated = true },
		"first":      func(m *Machine, _ string) { m.DeleteFirst = true },
		"mismatch":   func(m *Machine, _ string) { m.TemplateMismatch = true },
		"of":         func(m *Machine, owner string) { m.Owner = owner },
		"ruled":      func(m *Machine, note string) { m.DrainRules = note },
	}
	onClusters = map[string]func(v *View, value string){
		"Newest": func(v *View, _ string) { v.Order = removal.Newest },
		"Oldest": func(v *View, _ string) { v.Order = removal.Oldest },
		"Random": func(v *View, _ string) { v.Order = removal.Random },
		"byName": func(v *View, _ string) {
			v.Evidence = removal.Evidence{Order: removal.Newest, Within: map[removal.Key]removal.Order{removal.ByName: removal.Newest}}
		},
		"assumed":       func(v *View, _ string) { v.OrderAssumed = true },
		"drainPossible": func(v *View, _ string) { v.DrainPossible = true },
		"adding":        func(v *View, _ string) { v.Activity = AddingNodes },
		"removing":      func(v *View, _ string) { v.Activity = RemovingNodes },
		"replacing":     func(v *View, _ string) { v.Activity = ReplacingNodes },
		"target":        func(v *View, size string) { v.Target = number(size) },
		"uncertain":     func(v *View, _ string) { v.SizeUncertain = true },
		"answerLost":    func(v *View, _ string) { v.AnswerLost = true },
		"mayResend":     func(v *View, _ string) { v.MayResend = true },
		"scaledDown":    func(v *View, _ string) { v.ScaledDown = true },
		"ended":         func(v *View, minute string) { v.Ended = minutes(float64(number(minute))) },
		"autoscaled":    func(v *View, _ string) { v.Autoscaled = true },
		"adopted":       func(v *View, _ string) { v.Adopted = true },
		"unasked":       func(v *View, _ string) { v.Unasked = true },
		"pool":          func(v *View, replicas string) { v.Pool = &Pool{Replicas: number(replicas)} },
		"shrinks":       func(v *View, _ string) { v.Pool.Shrinks = true },
		"ending":        func(v *View, _ string) { v.Pool = &Pool{Replicas: 3, Deleting: true} },
	}
	// onLists are those whose values are names of Nodes, as in "pool=1 lists:n1:n2".
	onLists = map[string]func(v *View, node string){
		"lists":  func(v *View, node string) { v.Pool.List = append(v.Pool.List, "cloud://"+node) },
		"named":  func(v *View, node string) { v.Pool.List = append(v.Pool.List, providerID("c1", node)) }, // by the provider
		"copied": func(v *View, node string) { v.Pool.Copied = append(v.Pool.Copied, providerID("c1", node)) },
		"knows":  func(v *View, node string) { v.Pool.Known = append(v.Pool.Known, node) },
		"others": func(v *View, node string) { v.Pool.Others = append(v.Pool.Others, "cloud://"+node) },
	}
)

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// see returns the View that the words describe, one hour after epoch. In "2/3 Oldest n1 n2:gone m1/n1 m2:of=a pool=1 lists:n2 before n1", two workers
// are desired, the portal accepted three, and it removes the oldest. Machine m1 is on Node n1, the pool of one replica lists n2, and Node n1 existed
// before the last scale.
func see(words string) View {
	v := View{ClusterID: "c1", Now: minutes(60)}
	present, before, _ := strings.Cut(words, " before ")
	for _, word := range strings.Fields(present) {
		name, changes, _ := strings.Cut(word, ":")
		key, value, _ := strings.Cut(name, "=")
		switch {
		case onClusters[key] != nil:
			onClusters[key](&v, value)
		case onLists[key] != nil:
			for node := range strings.SplitSeq(changes, ":") {
				onLists[key](&v, node)
			}
		case strings.HasPrefix(name, "n"):
			v.Nodes = append(v.Nodes, changed(node(name), changes, onNodes))
		case strings.HasPrefix(name, "m"):
			name, on, _ := strings.Cut(name, "/")
			v.Machines = append(v.Machines, changed(machine(name, on), changes, onMachines))
		default:
			if _, err := fmt.Sscanf(name, "%d/%d", &v.Desired, &v.Size); err != nil {
				panic("nothing is called " + word)
			}
		}
	}
	if before != "" {
		v.Before = Snapshot(see(before).Nodes)
	}
	return v
}

func changed[T any](object T, changes string, known map[string]func(*T, string)) T {
	for _, change := range strings.FieldsFunc(changes, func(r rune) bool { return r == ':' }) {
		name, value, _ := strings.Cut(change, "=")
		if known[name] == nil {
			panic("nothing changes with " + change)
		}
		known[name](&object, value)
	}
	return object
}

// words are the moves of a plan, shortened.
var words = map[Move]string{
	"Gave the Node a providerID": "name",
	DrainByCore:                  "drain",
	Drained:                      "mark",
	Uncordoned:                   "uncordon",
	"Noted the Machine's rules for drains on the Node":                  "note",
	"Noted on the Node which operation made it":                         "batch",
	"Kept the cluster autoscaler from removing the Node":                "protect",
	"Let the cluster autoscaler remove the Node":                        "unprotect",
	"Deleted the Node of a drained machine that the portal has removed": "delete",
	"Put the deletion hooks on the Machine":                             "hooks",
	"Removed the deletion hooks from the Machine":                       "remove-hooks",
	"Marked the Machine to be deleted first":                            "delete-first",
	"Released the Machine from its Node":                                "detach",
	"Bound the Machine to the Node":                                     "bind",
	ChangedNode:                                                         "move",
	"Removed the nodeRef of the Machine":                                "forget",
	"Set the nodeRef of the Machine":                                    "point",
}

// brief formats a write for a reader: all that it changes, and the object.
func (w Write) brief() string {
	var all []string
	for _, move := range w.Moves() {
		all = append(all, cmp.Or(words[move], string(move)))
	}
	m := w.Machine.Want
	switch {
	case w.Step == WriteList:
		return strings.Join(append([]string{"list"}, w.List...), " ")
	case w.Step == WriteMachine && m.PreDrain && !m.PreTerminate:
		return "one hook of " + m.Name
	case w.Step == DrainNode:
		return "evict " + w.Node.Seen.Name
	case w.Step == WriteClaim && !IsReleased(m.Claim.ProviderID):
		m.Name += "/" + m.Claim.Name
	case w.Step == WriteNodeRef && m.NodeRef != "":
		m.Name += "/" + m.NodeRef
	}
	return strings.Join(all, "+") + " " + m.Name + w.Node.Seen.Name
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
