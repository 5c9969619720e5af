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
	*all.Of(one)++
	*all.Of(one)++
	*all.Of(other)++
	if *all.Of(one) != 2 || *all.Of(other) != 1 {
		t.Errorf("remembered %d and %d", *all.Of(one), *all.Of(other))
	}
	all.Drop(one)
	if *all.Of(one) != 0 || *all.Of(other) != 1 {
		t.Errorf("after one is gone: %d and %d", *all.Of(one), *all.Of(other))
	}
}
