// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Memories holds what a controller remembers of each of its objects from one pass to the next. It may be lost at any time. Passes of
// one object never overlap, so an M needs no lock, but the Backoff has one. The zero value is ready to use.
type Memories[M any] struct{ known sync.Map }

// Of returns the memory of the object.
func (m *Memories[M]) Of(object types.NamespacedName) *M {
	known, _ := m.known.LoadOrStore(object, new(M))
	return known.(*M) // nothing else is stored
}

// Drop forgets an object that is gone.
func (m *Memories[M]) Drop(object types.NamespacedName) { m.known.Delete(object) }
