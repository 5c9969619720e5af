// SPDX-License-Identifier: Apache-2.0

package coreversion

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// inventory is clusterctl's. It can be read or not, and counts how often it was.
type inventory struct {
	client.Client
	err   error
	reads int
}

func newInventory(t *testing.T, providers ...*clusterctlv1.Provider) *inventory {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterctlv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, p := range providers {
		builder = builder.WithObjects(p)
	}
	i := &inventory{}
	i.Client = interceptor.NewClient(builder.Build(), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if i.reads++; i.err != nil {
				return i.err
			}
			return c.List(ctx, list, opts...)
		},
	})
	return i
}

// upgrade gives core another version.
func (i *inventory) upgrade(t *testing.T, version string) {
	t.Helper()
	p := core("")
	if err := i.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
		t.Fatal(err)
	}
	p.Version = version
	if err := i.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

func provider(kind clusterctlv1.ProviderType, name, version string) *clusterctlv1.Provider {
	return &clusterctlv1.Provider{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name}, Type: string(kind), ProviderName: name, Version: version,
	}
}

func core(version string) *clusterctlv1.Provider {
	return provider(clusterctlv1.CoreProviderType, "cluster-api", version)
}

// TestVerified checks which inventories say that takeovers are safe.
func TestVerified(t *testing.T) {
	portal := provider(clusterctlv1.InfrastructureProviderType, "infrastructure-portal", "v1.14.0")
	tests := map[string]struct {
		providers []*clusterctlv1.Provider
		allow     bool
		want      bool
	}{
		"a version that was tried":     {[]*clusterctlv1.Provider{core("v1.14.2")}, false, true},
		"without a v":                  {[]*clusterctlv1.Provider{core("1.14.0")}, false, true},
		"a candidate of it":            {[]*clusterctlv1.Provider{core("v1.14.3-rc.0+dirty")}, false, true},
		"another minor":                {[]*clusterctlv1.Provider{core("v1.15.0")}, false, false},
		"one that only begins like it": {[]*clusterctlv1.Provider{core("v1.140.0")}, false, false},
		"another major":                {[]*clusterctlv1.Provider{core("v2.14.0")}, false, false},
		"no version":                   {[]*clusterctlv1.Provider{core("latest")}, false, false},
		"core is not listed":           {[]*clusterctlv1.Provider{portal}, false, false},
		"among others":                 {[]*clusterctlv1.Provider{portal, core("v1.14.2")}, false, true},
		"nothing is listed":            {nil, false, false},
		"another minor, allowed":       {[]*clusterctlv1.Provider{core("v1.15.0")}, true, true},
		"nothing is listed, allowed":   {nil, true, true},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			check := &Check{Reader: newInventory(t, test.providers...), AllowUnverified: test.allow}
			if got := check.Verified(t.Context()); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}

// TestVerifiedAgain checks how long an answer is used, also while the inventory cannot be read: a failed read changes no answer, and
// the next one follows soon.
func TestVerifiedAgain(t *testing.T) {
	type look struct {
		after   time.Duration
		broken  bool
		version string // that core is upgraded to before
		want    bool
		reads   int // so far
	}
	tests := map[string][]look{
		"an answer is used for ten minutes": {
			{version: "v1.14.2", want: true, reads: 1},
			{after: 9 * time.Minute, version: "v1.15.0", want: true, reads: 1},
			{after: time.Minute, want: false, reads: 2},
			{after: 9 * time.Minute, version: "v1.14.3", want: false, reads: 2},
			{after: time.Minute, want: true, reads: 3},
		},
		"a failed read keeps the last answer, and is repeated after ten seconds": {
			{version: "v1.14.2", want: true, reads: 1},
			{after: 10 * time.Minute, broken: true, want: true, reads: 2},
			{after: 9 * time.Second, broken: true, want: true, reads: 2},
			{after: time.Second, broken: true, want: true, reads: 3},
			{after: 10 * time.Second, want: true, reads: 4},
			{after: 9 * time.Minute, want: true, reads: 4},
		},
		"and so is a bad one": {
			{version: "v1.15.0", want: false, reads: 1},
			{after: 10 * time.Minute, broken: true, version: "v1.14.2", want: false, reads: 2},
			{after: 10 * time.Second, want: true, reads: 3},
		},
		"core is upgraded while the inventory cannot be read": {
			{version: "v1.14.2", want: true, reads: 1},
			{after: 10 * time.Minute, broken: true, version: "v1.15.0", want: true, reads: 2},
			{after: 10 * time.Second, want: false, reads: 3},
		},
		"the first read fails": {
			{broken: true, version: "v1.14.2", want: false, reads: 1},
			{after: 9 * time.Second, want: false, reads: 1},
			{after: time.Second, want: true, reads: 2},
		},
	}
	for title, looks := range tests {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inventory := newInventory(t, core(""))
				check := &Check{Reader: inventory}
				for i, look := range looks {
					time.Sleep(look.after)
					inventory.err = nil
					if look.version != "" {
						inventory.upgrade(t, look.version)
					}
					if look.broken {
						inventory.err = errors.New("the API server starts")
					}
					if got := check.Verified(t.Context()); got != look.want || inventory.reads != look.reads {
						t.Errorf("look %d: %t after %d reads, want %t after %d", i+1, got, inventory.reads, look.want, look.reads)
					}
				}
			})
		})
	}
}
