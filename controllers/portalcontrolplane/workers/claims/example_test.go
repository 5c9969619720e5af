// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"fmt"
)

// ExampleDecide is a scale-down of five workers to four, step by step. Each step is a View, in the words of see. The portal removes the newest
// worker first, which is n5. Core deletes m3, which is on n3.
func ExampleDecide() {
	for _, view := range []string{
		// The replicas fell. No node goes before core has chosen a Machine.
		"4/5 n1 n2 n3 n4 n5 m1/n1 m2/n2 m3/n3 m4/n4 m5/n5",
		// It has chosen m3. n5 goes next, so m3 and m5 swap their nodes: first m5, then m3.
		"4/5 n1 n2 n3 n4 n5 m1/n1 m2/n2 m3/n3:deleting m4/n4 m5/n5",
		"4/5 n1 n2 n3 n4 n5 m1/n1 m2/n2 m3/n3:deleting m4/n4 m5/n3:was=n5",
		// Core has seen both moves. It drains n5 for m3.
		"4/5 n1 n2 n3 n4 n5 m1/n1 m2/n2 m3/n5:deleting m4/n4 m5/n3",
		// The drain has ended. The node keeps a mark, and the Machine is released.
		"4/5 n1 n2 n3 n4 n5:cordoned m1/n1 m2/n2 m3/n5:drained m4/n4 m5/n3",
		// The node is drained, and no Machine has it. The portal is asked.
		"4/5 n1 n2 n3 n4 n5:gone m1/n1 m2/n2 m4/n4 m5/n3",
		// It has removed n5.
		"4/4 n1 n2 n3 n4 m1/n1 m2/n2 m4/n4 m5/n3",
	} {
		fmt.Println(cmp.Or(said(Decide(see(view))), "nothing to do"))
	}
	// Output:
	// nothing to do
	// move m5/n3
	// move m3/n5
	// drain m3; draining m3
	// mark n5, detach m3
	// scale 4; drained n5
	// nothing to do
}

// ExampleDecide_batch is the same scale-down where the portal made n4 and n5 in one job, so that nothing tells which of them goes first. Core
// deletes m5, which is on n5. The portal removes n4.
func ExampleDecide_batch() {
	for _, view := range []string{
		// n5 is expected to go, and n4 may go instead. Core drains the one, the provider the other.
		"4/5 n1:old n2:old n3:old n4:made n5:made m1/n1 m2/n2 m3/n3 m4/n4 m5/n5:deleting",
		// Core has drained n5. The portal is not asked yet.
		"4/5 n1:old n2:old n3:old n4:made:evicting n5:made:lately m1/n1 m2/n2 m3/n3 m4/n4",
		// Both are drained.
		"4/5 n1:old n2:old n3:old n4:made:gone n5:made:gone m1/n1 m2/n2 m3/n3 m4/n4",
		// The portal has removed n4. m4 is Lost, and n5 stays.
		"4/4 n1:old n2:old n3:old n5:made:gone m1/n1 m2/n2 m3/n3 m4/n4",
		"4/4 n1:old n2:old n3:old n5:made m1/n1 m2/n2 m3/n3 m4/n4",
	} {
		fmt.Println(cmp.Or(said(Decide(see(view))), "nothing to do"))
	}
	// Output:
	// drain m5, evict n4; draining m5; after 5s
	// evict n4; draining nodes n4; drained n5; after 5s
	// scale 4; drained n4 n5
	// uncordon n5; 1 unbound; lost n4; drained n5
	// move m4/n5
}
