// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Dump has the objects of a namespace as a backup has them: without what an API server sets.
type Dump []*unstructured.Unstructured

// Dump saves the namespace of the cluster.
func (w *World) Dump() (d Dump) {
	for _, u := range w.objects() {
		o := u.DeepCopy()
		o.SetGroupVersionKind(outside(u))
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "deletionTimestamp"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		d = append(d, o)
	}
	return d
}

// change returns a copy of the dump with each object changed.
func (d Dump) change(change func(o *unstructured.Unstructured)) (changed Dump) {
	for _, o := range d {
		o = o.DeepCopy()
		change(o)
		changed = append(changed, o)
	}
	return changed
}

// withoutOwners is the dump of a tool that drops owner references.
func (d Dump) withoutOwners() Dump {
	return d.change(func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) })
}

// withoutStatus is the dump of a tool that does not save status.
func (d Dump) withoutStatus() Dump {
	return d.change(func(o *unstructured.Unstructured) { unstructured.RemoveNestedField(o.Object, "status") })
}

// asVelero is the dump as Velero 1.18 restores it: without owner references and status, and with the Cluster last.
func (d Dump) asVelero() Dump {
	d = d.withoutOwners().withoutStatus()
	i := slices.IndexFunc(d, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Cluster" })
	return append(slices.Delete(slices.Clone(d), i, i+1), d[i])
}

// manifest is what users write: the objects that Machines and controllers make are not in it.
func (d Dump) manifest(more ...string) Dump {
	kinds := append(more, "Cluster", "MachineDeployment", "PortalCluster", "PortalControlPlane", "PortalMachineTemplate")
	return slices.DeleteFunc(slices.Clone(d), func(o *unstructured.Unstructured) bool { return !slices.Contains(kinds, o.GetKind()) })
}

// renamed is the dump with another name of the Cluster, wherever it is a whole value.
func (d Dump) renamed(to string) Dump {
	return d.change(func(o *unstructured.Unstructured) {
		text, _ := json.Marshal(o.Object)
		o.Object = nil
		_ = json.Unmarshal([]byte(strings.ReplaceAll(string(text), `:"`+name+`"`, `:"`+to+`"`)), &o.Object)
	})
}

// Load creates the objects of a dump one after the other, as a restore does: objects that exist are not replaced.
func (w *World) Load(d Dump) {
	w.Helper()
	for _, o := range d {
		w.note("restore %s %s", o.GetKind(), o.GetName())
		w.Let(200 * time.Millisecond)
		status, saved := o.Object["status"]
		restored := o.DeepCopy()
		err := w.client.Create(context.Background(), restored)
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		w.must(err)
		if saved {
			restored.Object["status"] = status
			if err := w.client.Status().Update(context.Background(), restored); !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
				w.must(err)
			}
		}
	}
}

// Lose ends core and the provider, and removes all objects of the namespace, as the loss of a management cluster does. Then both start in an
// empty one.
func (w *World) Lose() {
	w.note("the management cluster is lost")
	w.core.stop()
	w.provider.stop()
	synctest.Wait()
	s := w.management.store
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if obj := s.objects[key]; obj.GetNamespace() == namespace {
			s.swap(key, obj, nil)
		}
	}
	w.startCore()
	w.startProvider()
}

// RestartCore ends core's manager, and starts it again after a time.
func (w *World) RestartCore(after time.Duration) {
	w.note("core ends")
	w.core.stop()
	w.Let(after)
	w.startCore()
}
