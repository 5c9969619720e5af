// SPDX-License-Identifier: Apache-2.0

package capibehavior

import (
	"errors"
	"fmt"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// must calls an API server, and tries again if the call fails for a passing reason, such as a timeout on a busy host.
func (w *world) must(call func() error) {
	w.Helper()
	w.Eventually(func() error {
		err := call()
		if definite(err) {
			return StopTrying("the API server refuses").Wrap(err)
		}
		return err
	}).Should(Succeed())
}

// definite reports whether the API server would answer with the same error again.
func definite(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !apierrors.IsTimeout(err) && !apierrors.IsServerTimeout(err) &&
		!apierrors.IsTooManyRequests(err) && !apierrors.IsInternalError(err)
}

func (w *world) create(c client.Client, o client.Object) {
	w.Helper()
	// Each name is used once, so an existing object was created by an earlier try.
	w.must(func() error { return client.IgnoreAlreadyExists(c.Create(w.Context(), o)) })
}

func (w *world) delete(c client.Client, o client.Object) {
	w.Helper()
	w.must(func() error { return client.IgnoreNotFound(c.Delete(w.Context(), o)) })
}

// read reads an object again.
func (w *world) read(c client.Client, o client.Object) {
	w.Helper()
	w.must(func() error { return c.Get(w.Context(), client.ObjectKeyFromObject(o), o) })
}

// exists returns a function that reads the object and reports whether it exists.
func (w *world) exists(c client.Client, o client.Object) func() bool {
	return func() (found bool) {
		w.must(func() error {
			err := c.Get(w.Context(), client.ObjectKeyFromObject(o), o)
			found = err == nil
			return client.IgnoreNotFound(err)
		})
		return found
	}
}

// change reads and patches an object.
func change[T client.Object](w *world, c client.Client, o T, change func(T)) {
	w.Helper()
	patch(w, c, o, change, func(before client.Patch) error { return c.Patch(w.Context(), o, before) })
}

// changeStatus reads an object and patches its status.
func changeStatus[T client.Object](w *world, c client.Client, o T, change func(T)) {
	w.Helper()
	patch(w, c, o, change, func(before client.Patch) error { return c.Status().Patch(w.Context(), o, before) })
}

func patch[T client.Object](w *world, c client.Client, o T, change func(T), send func(before client.Patch) error) {
	w.Helper()
	w.must(func() error {
		if err := c.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before, _ := o.DeepCopyObject().(client.Object)
		change(o)
		return send(client.MergeFrom(before))
	})
}

// condition returns a function that reads a condition of an object in the management cluster as "Status Reason: message".
func (w *world) condition(o client.Object, conditionType string) func() string {
	return func() string {
		if !w.exists(management, o)() {
			return "gone"
		}
		getter, _ := o.(conditions.Getter)
		c := conditions.Get(getter, conditionType)
		if c == nil {
			return "none"
		}
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
}
