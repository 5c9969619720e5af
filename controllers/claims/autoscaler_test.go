// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func pinned(n *Node)    { n.Pinned = true }
func protected(n *Node) { n.ScaleDownDisabled = true }
func usersTrue(n *Node) { n.ScaleDownSetByUser, n.Pinned = true, true }
func usersOwn(n *Node)  { n.ScaleDownSetByUser = true }

// TestProtectFromAutoscaler checks which Nodes the cluster autoscaler is kept from choosing. In every case the replicas ask for
// three workers, unless the view says something else.
func TestProtectFromAutoscaler(t *testing.T) {
	tests := map[string]struct {
		view View
		want string
	}{
		"it had one":                            {see("n1:protected n2:protected n3:protected"), "unprotect n1, unprotect n2, unprotect n3"},
		"the next to go has one":                {see("n1 n2 n3:pinned"), "protect n1, protect n2, protect n3"},
		"the last has one":                      {see("n1:pinned n2 n3"), "protect n1"},
		"the oldest go first":                   {see("Oldest n1 n2:pinned n3"), "protect n2, protect n3"},
		"the Pod has moved away from the first": {see("n1:protected n2:protected:pinned n3:protected"), "unprotect n3"},
		"done already":                          {see("n1:protected n2:protected:pinned n3"), ""},

		"no order":         {see("Random n1 n2 n3"), "protect n1, protect n2, protect n3"},
		"no order, done":   {see("Random n1:protected n2:protected n3:protected"), ""},
		"no order, pinned": {see("Random n1:pinned n2 n3"), "protect n1, protect n2, protect n3"},

		"more workers than replicas":      {see("2/0 n1 n2 n3"), "protect n1, protect n2, protect n3"},
		"more, and their drain has ended": {see("2/0 n1 n2 n3:just"), "protect n1, protect n2, protect n3"},
		"as many, but the job still runs": {see("removing target=3 n1:protected n2:protected n3:protected"), ""},
		"as many, and the job has ended":  {see("n1:protected n2:protected n3:protected"), "unprotect n1, unprotect n2, unprotect n3"},
		"the portal replaces nodes":       {see("replacing n1 n2 n3"), "protect n1, protect n2, protect n3"},
		"fewer workers than replicas":     {see("4/0 n1:protected n2:protected n3:protected"), "unprotect n1, unprotect n2, unprotect n3"},

		"those of the pool always are": {see("n1 n2 n3 pool=0:n2"), "protect n2"},

		"the user's true counts like a Pod, and stays as it is": {see("n1 n2:usersTrue n3"), "protect n1"},
		"the user's own value stays while all are protected":    {see("2/0 n1 n2:usersOwn n3"), "protect n1, protect n3"},
		"and afterwards": {see("n1:protected n2:usersOwn n3:protected"), "unprotect n1, unprotect n3"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			plan := Decide(autoscaledView(test.view))
			if diff := cmp.Diff(test.want, protections(plan)); diff != "" {
				t.Error(diff)
			}
			if looksAgain := plan.RequeueAfter > 0 && plan.RequeueAfter <= podsInterval; !looksAgain && test.view.Order != Random {
				t.Errorf("the Pods are looked at again after %s", plan.RequeueAfter)
			}
		})
	}
}

// TestScaleDownNotAutoscaled checks that no node is protected if no autoscaler may scale, and that the protection is removed.
func TestScaleDownNotAutoscaled(t *testing.T) {
	for title, test := range map[string]struct {
		view View
		want string
	}{
		"never was":                  {see("n1 n2:pinned n3"), ""},
		"never was, too many":        {see("2/0 n1 n2 n3"), ""},
		"never was, no order":        {see("Random n1 n2 n3"), ""},
		"not any more":               {see("n1:protected n2:protected:pinned n3"), "unprotect n1, unprotect n2"},
		"not any more, too many":     {see("2/0 n1:protected n2 n3:protected"), "unprotect n1, unprotect n3"},
		"not any more, no order":     {see("Random n1:protected n2 n3"), "unprotect n1"},
		"not any more, of the pool":  {see("n1:protected n2 n3 pool=0:n1"), "unprotect n1"},
		"not any more, user's value": {see("n1:usersTrue n2:usersOwn n3"), ""},
	} {
		t.Run(title, func(t *testing.T) {
			view := autoscaledView(test.view)
			view.Autoscaled = false
			plan := Decide(view)
			if diff := cmp.Diff(test.want, protections(plan)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// autoscaledView completes a view of an autoscaled cluster whose Machines hold all nodes that stay, the oldest ones.
func autoscaledView(v View) View {
	v.ClusterID, v.Autoscaled, v.Now = "c1", true, epoch.Add(time.Hour)
	if v.Desired == 0 {
		v.Desired = 3
	}
	if v.Size == 0 {
		v.Size = 3
	}
	v.Machines = threeBound[:min(v.Desired, len(threeBound))]
	return v
}

// protections formats only what concerns the autoscaler.
func protections(p Plan) string {
	var words changes
	for _, w := range p.Writes {
		on := w.Node.Want.ScaleDownDisabled
		words.add(on != w.Node.Seen.ScaleDownDisabled, either(on, "protect ", "unprotect ")+w.Node.Seen.Name)
	}
	return strings.Join(words, ", ")
}
