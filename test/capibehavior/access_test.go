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

// retry calls an API server, and tries again if the call fails for a passing reason, such as a timeout on a busy host.
func (f *fixture) retry(call func() error) {
	f.Helper()
	f.Eventually(func() error {
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

func (f *fixture) create(c client.Client, o client.Object) {
	f.Helper()
	// Each name is used once, so an existing object was created by an earlier try.
	f.retry(func() error { return client.IgnoreAlreadyExists(c.Create(f.Context(), o)) })
}

func (f *fixture) delete(c client.Client, o client.Object) {
	f.Helper()
	f.retry(func() error { return client.IgnoreNotFound(c.Delete(f.Context(), o)) })
}

// read reads an object again.
func (f *fixture) read(c client.Client, o client.Object) {
	f.Helper()
	f.retry(func() error { return c.Get(f.Context(), client.ObjectKeyFromObject(o), o) })
}

// exists returns a function that reads the object and reports whether it exists.
func (f *fixture) exists(c client.Client, o client.Object) func() bool {
	return func() (found bool) {
		f.retry(func() error {
			err := c.Get(f.Context(), client.ObjectKeyFromObject(o), o)
			found = err == nil
			return client.IgnoreNotFound(err)
		})
		return found
	}
}

// change reads and patches an object.
func change[T client.Object](f *fixture, c client.Client, o T, change func(T)) {
	f.Helper()
	patch(f, c, o, change, func(before client.Patch) error { return c.Patch(f.Context(), o, before) })
}

// changeStatus reads an object and patches its status.
func changeStatus[T client.Object](f *fixture, c client.Client, o T, change func(T)) {
	f.Helper()
	patch(f, c, o, change, func(before client.Patch) error { return c.Status().Patch(f.Context(), o, before) })
}

func patch[T client.Object](f *fixture, c client.Client, o T, change func(T), send func(before client.Patch) error) {
	f.Helper()
	f.retry(func() error {
		if err := c.Get(f.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before, _ := o.DeepCopyObject().(client.Object)
		change(o)
		return send(client.MergeFrom(before))
	})
}

// condition returns a function that reads a condition of an object in the management cluster as "Status Reason: message".
func (f *fixture) condition(o client.Object, conditionType string) func() string {
	return func() string {
		if !f.exists(management, o)() {
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
