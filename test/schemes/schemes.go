// SPDX-License-Identifier: Apache-2.0

// Package schemes makes the schemes of stores in tests.
package schemes

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
)

// Of returns a scheme that knows the kinds of these APIs.
func Of(t testing.TB, apis ...func(*runtime.Scheme) error) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range apis {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}
