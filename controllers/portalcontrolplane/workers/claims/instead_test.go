// SPDX-License-Identifier: Apache-2.0

package claims

import "testing"

// TestBatch checks which nodes are drained, and what the portal is asked for, where it made n3, n4 and n5 in one job and removes the newest
// first. No removal has shown which of the three goes first.
func TestBatch(t *testing.T) {
	rules{
		"two of three go: the third is drained too, although a Machine has it": {
			"3/5 n1:old n2:old n3:made n4:made n5:made m1/n1 m2/n2 m3/n3", "evict n5, evict n4, evict n3; 2 free; after 5s",
		},
		"the portal waits for the third": {
			"3/5 n1:old n2:old n3:made:evicting n4:made:lately n5:made:lately m1/n1 m2/n2 m3/n3", "evict n3; draining nodes n3; drained n4 n5; after 5s",
		},
		"all are drained: one request": {
			"3/5 n1:old n2:old n3:made:gone n4:made:gone n5:made:gone m1/n1 m2/n2 m3/n3", "scale 3; drained n3 n4 n5",
		},
		"one that goes still drains, and the third does not: the portal may choose it": {
			"3/5 n1:old n2:old n3:made:gone n4:made:evicting n5:made:gone m1/n1 m2/n2 m3/n3",
			"evict n4; draining nodes n4; drained n3 n5; after 5s",
		},
		"all of the batch go, and one still drains: the portal may choose it": {
			"3/5 n1:old n2:old n3:old n4:made:evicting n5:made:lately m1/n1 m2/n2 m3/n3", "evict n4; draining nodes n4; drained n5; after 5s",
		},
		"one that goes is lost, and the drain of the other one has yet to begin": {
			"4/5 n1:old n2:old n3:old n4:made n5:made:evicting:lost m1/n1 m2/n2 m3/n3 m4/n4",
			"evict n4; draining nodes n5; after 5s",
		},
		"a portal without an order: one request for all": {"1/3 Random n1:old n2:old:gone n3:old:gone m1/n1", "scale 1; drained n2 n3"},
		"the third finds no room for its Pods for five minutes: a guess, one node": {
			"3/5 n1:old n2:old n3:made:evicting n4:made:gone n5:made:gone m1/n1 m2/n2 m3/n3", "evict n3, scale 4; draining nodes n3; drained n4 n5; after 5s",
		},
		"a Machine without a node gets one that stays, although its MachineDeployment had another one that may go": {
			"4/6 n1:old n2:old n3:old:last=b n4:made:last=a n5:made n6:made m1/n1 m2/n2:of=b m3:of=a",
			"hooks m3, bind m3/n3, evict n6, evict n5, evict n4; 3 free; after 5s",
		},
		"the portal has chosen: what stays takes Pods again": {
			"3/3 n1:old n2:old n3:made:gone m1/n1 m2/n2 m3/n3", "uncordon n3; drained n3",
		},
		"one of three goes: too many to drain, so it is a guess": {
			"4/5 n1:old n2:old n3:made n4:made n5:made:gone m1/n1 m2/n2 m3/n3 m4/n4", "scale 4; drained n5",
		},
		"one of three goes, and every node that may go is to be drained": {
			"4/5 drainPossible n1:old n2:old n3:made n4:made n5:made:gone m1/n1 m2/n2 m3/n3 m4/n4", "evict n4, evict n3; drained n5; after 5s",
		},
		"any of the workers may go: none is drained": {
			"4/5 assumed drainPossible n1:old n2:old n3:made n4:made n5:made m1/n1 m2/n2 m3/n3 m4/n4", "1 free; any may go",
		},
		"a removal has shown that the portal goes by name": {
			"3/5 byName n1:old n2:old n3:made n4:made:gone n5:made:gone m1/n1 m2/n2 m3/n3", "scale 3; drained n4 n5",
		},
		"all are of one batch, and one stays: it cannot take all Pods": {"1/2 n1:old n2:old m1/n1", "evict n2; 1 free; after 5s"},
		"a batch before it goes whole, and of the rest one, which is a guess": {
			"2/6 n1:old:gone n2:old n3:old n4:made:gone n5:made:gone n6:made:gone m2/n2 m3/n3", "scale 3; drained n1 n4 n5 n6",
		},
		"no object asks for workers, and the third is not drained: the portal may choose it, so all stay": {
			"0/5 unasked n1:old n2:old n3:made n4:made:gone n5:made:gone", "uncordon n4, uncordon n5; 3 free; drained n4 n5",
		},
		"no object asks for workers, and all of the batch are drained: they go": {
			"0/5 unasked n1:old n2:old n3:made:gone n4:made:gone n5:made:gone", "scale 2; 2 free; drained n3 n4 n5",
		},
	}.check(t)
	if !Decide(see("4/5 n1:old n2:old n3:made n4:made n5:made m1/n1 m2/n2 m3/n3 m4/n4")).NeedsPositions {
		t.Error("the list of instances may tell the three apart, and is not read")
	}
}

// TestNoteBatch checks that nodes are marked with the operation that made them, once.
func TestNoteBatch(t *testing.T) {
	rules{
		"the last operation made it": {"3/3 n1:old n2:old n3:found=op2 m1/n1 m2/n2 m3/n3", "batch n3"},
		"not again":                  {"3/3 n1 n2 n3:by=op2 m1/n1 m2/n2 m3/n3", ""},
	}.check(t)
}

// TestUndrained checks when a scale-down is compared with the nodes that it left, and that the nodes are named which the portal removed although
// they were not drained.
func TestUndrained(t *testing.T) {
	rules{
		"the drained one":    {"2/2 scaledDown n1 n2:cordoned before n1 n2:cordoned n3:gone n4:failed", "observed Newest"},
		"one that took Pods": {"2/2 scaledDown n2 n3:gone before n1 n2:cordoned n3:gone n4:failed", "undrained n1; observed Random"},
		"one amid its drain": {"2/2 scaledDown n1 n3:gone before n1 n2:cordoned n3:gone n4:failed", "undrained n2; observed Random"},
		"just now, and another one is away: the removed one may be Ready still": {
			"4/4 scaledDown ended=60 n1 n2 n3:lost n4 n5:gone m1/n1 m2/n2 m3/n3 m4/n4 before n1 n2 n3:lost n4 n5:gone",
			"drained n5; not ready n3; after 1m0s",
		},
		"it is not: the one that is away is held by a Machine": {
			"4/4 scaledDown ended=58 n1 n2 n3:lost n4 n5:gone:recent m1/n1 m2/n2 m3/n3 m4/n4 before n1 n2 n3:lost n4 n5:gone",
			"observed Newest",
		},
		"one more exists":        {"1/1 scaledDown n1 n2 m1/n1 before n1 n2 n3", "1 free"},
		"the portal works again": {"1/1 scaledDown adding n1 m1/n1 before n1 n2 n3", ""},
	}.check(t)
}
