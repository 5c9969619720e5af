// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// TestMemories: each object has a memory of its own, until it is gone.
func TestMemories(t *testing.T) {
	var all Memories[int]
	one, other := types.NamespacedName{Namespace: "a", Name: "x"}, types.NamespacedName{Namespace: "b", Name: "x"}
	for i, want := range []int{1, 2, 1} { // the third time, after the object is gone
		if *all.Of(one)++; *all.Of(one) != want || *all.Of(other) != 0 {
			t.Errorf("time %d: remembered %d and %d", i, *all.Of(one), *all.Of(other))
		}
		if want == 2 {
			all.Drop(one)
		}
	}
}
