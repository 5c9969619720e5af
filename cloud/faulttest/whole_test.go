// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestNothingIsLeftOut checks that every method of the client that calls the portal has a row in the matrix, every endpoint has a method,
// and every shape has a life.
func TestNothingIsLeftOut(t *testing.T) {
	listed, called := map[string]bool{}, map[string]bool{}
	for _, m := range methods {
		name, _, _ := strings.Cut(m.name, ":")
		listed[name] = true
		called[m.verb+" "+m.path] = true
	}
	client := reflect.TypeFor[*cloud.Client]()
	for i := range client.NumMethod() {
		m := client.Method(i)
		asks := m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]()
		if asks && m.Name != "Wait" && !listed[m.Name] { // Wait asks only the rate limiter
			t.Errorf("method %s is in no row", m.Name)
		}
	}
	if len(called) != 20 {
		t.Errorf("%d endpoints are called, want the 19 of the specification and the list of clusters", len(called))
	}
	set := reflect.ValueOf(new(emulator.Shapes)).Elem()
	for _, one := range shapes {
		one.set(set.Addr().Interface().(*emulator.Shapes))
	}
	for i := range set.NumField() {
		if set.Field(i).IsZero() {
			t.Errorf("shape %s is in no life", set.Type().Field(i).Name)
		}
	}
}
