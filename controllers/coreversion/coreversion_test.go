// SPDX-License-Identifier: Apache-2.0

package coreversion

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// management is a management cluster, as far as it shows core. It can be read or not, and counts how often it was.
type management struct {
	client.Client
	err   error
	reads int
	never bool // clusterctl was never used, so its kind does not exist
}

func newManagement(t *testing.T, objects ...client.Object) *management {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterctlv1.AddToScheme, appsv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	m := &management{}
	m.Client = interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, isDeployment := obj.(*appsv1.Deployment); !isDeployment {
				m.reads++
			}
			if m.err != nil {
				return m.err
			}
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if m.never {
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: clusterctlv1.GroupVersion.Group, Kind: "Provider"}}
			}
			return c.List(ctx, list, opts...)
		},
	})
	return m
}

// kinds is the CustomResourceDefinition of Clusters, which core of the namespace converts.
func kinds(namespace string) client.Object {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "clusters.cluster.x-k8s.io"}}
	if namespace != "" {
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: namespace, Name: "capi-webhook-service"}},
		}}
	}
	return crd
}

// deployment is core's, of an image.
func deployment(namespace, image string) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "capi-controller-manager"}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "proxy:v1.15.0"}, {Name: "manager", Image: image}}
	return d
}

// upgrade gives core another version.
func (m *management) upgrade(t *testing.T, version string) {
	t.Helper()
	d := deployment("capi-system", "")
	if err := m.Client.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	d.Spec.Template.Spec.Containers[1].Image = "core:" + version
	if err := m.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func provider(kind clusterctlv1.ProviderType, name, version string) *clusterctlv1.Provider {
	return &clusterctlv1.Provider{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name}, Type: string(kind), ProviderName: name, Version: version,
	}
}

func listed(version string) *clusterctlv1.Provider {
	return provider(clusterctlv1.CoreProviderType, "cluster-api", version)
}

// TestProblem checks beside which core takeovers are safe, with each way of installing it, and the message if they are not.
func TestProblem(t *testing.T) {
	const none = ""
	portal := provider(clusterctlv1.InfrastructureProviderType, "infrastructure-portal", "v1.14.0")
	unsaid := "the version of core is unknown, because "
	labelled := deployment("capi-system", "core@sha256:abc")
	labelled.Labels = map[string]string{"app.kubernetes.io/version": "1.14.2"}
	bare := deployment("capi-system", "")
	bare.Spec.Template.Spec.Containers = nil
	tests := map[string]struct {
		objects []client.Object
		want    string // part of it; none: it is safe
	}{
		"installed by no clusterctl": {[]client.Object{kinds("capi-system"), deployment("capi-system", "registry.k8s.io/cluster-api/cluster-api-controller:v1.14.2")}, none},
		"in a namespace of its own":  {[]client.Object{kinds("fleet"), deployment("fleet", "registry:5000/core:v1.14.0")}, none},
		"tag and digest":             {[]client.Object{kinds("capi-system"), deployment("capi-system", "registry:5000/core:v1.14.2@sha256:abc")}, none},
		"without a v":                {[]client.Object{kinds("capi-system"), deployment("capi-system", "core:1.14.0")}, none},
		"a candidate of it":          {[]client.Object{kinds("capi-system"), deployment("capi-system", "core:v1.14.3-rc.0")}, none},
		"by its label":               {[]client.Object{kinds("capi-system"), labelled}, none},
		"another minor": {[]client.Object{kinds("capi-system"), deployment("capi-system", "core:v1.15.0")},
			"core has version v1.15.0, but the provider was tested with 1.14 only"},
		"one that only begins like it":       {[]client.Object{kinds("capi-system"), deployment("capi-system", "core:v1.140.0")}, "core has version v1.140.0"},
		"another major":                      {[]client.Object{kinds("capi-system"), deployment("capi-system", "core:v2.14.0")}, "core has version v2.14.0"},
		"upgraded by others than clusterctl": {[]client.Object{kinds("capi-system"), deployment("capi-system", "core:v1.15.0"), listed("v1.14.2")}, "core has version v1.15.0"},
		"no version": {[]client.Object{kinds("capi-system"), deployment("capi-system", "registry:5000/core:latest")},
			unsaid + `the image of Deployment capi-system/capi-controller-manager, "registry:5000/core:latest", has no version as its tag`},
		"a digest only":        {[]client.Object{kinds("capi-system"), deployment("capi-system", "registry:5000/core@sha256:abc")}, unsaid},
		"no container":         {[]client.Object{kinds("capi-system"), bare}, unsaid},
		"a digest, listed":     {[]client.Object{kinds("capi-system"), deployment("capi-system", "core@sha256:abc"), portal, listed("v1.14.2")}, none},
		"a tenant's":           {[]client.Object{kinds("capi-system"), deployment("tenant", "core:v1.14.2")}, unsaid + "Deployment capi-system/capi-controller-manager does not exist"},
		"no Deployment":        {[]client.Object{kinds("capi-system"), listed("v1.15.0")}, "core has version v1.15.0"},
		"on another machine":   {[]client.Object{kinds(""), portal}, unsaid + "core's webhook is not a Service"},
		"there too, listed":    {[]client.Object{kinds(""), listed("v1.14.2")}, none},
		"listed with no sense": {[]client.Object{kinds(""), listed("latest")}, unsaid},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			m := newManagement(t, test.objects...)
			m.never = !slices.ContainsFunc(test.objects, func(o client.Object) bool { _, is := o.(*clusterctlv1.Provider); return is })
			check := &Check{Reader: m}
			if got := check.Problem(t.Context()); (got == none) != (test.want == none) || !strings.HasPrefix(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			check = &Check{Reader: m, AllowUnverified: true}
			if got := check.Problem(t.Context()); got != none {
				t.Errorf("although it is allowed: %q", got)
			}
		})
	}
}

// TestProblemAgain checks how long an answer is used, also while core cannot be looked at: a failed read changes no answer, and
// the next one follows soon.
func TestProblemAgain(t *testing.T) {
	type look struct {
		after   time.Duration
		broken  bool
		version string // that core is upgraded to before
		want    bool   // it is safe
		reads   int    // so far
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
		"core is upgraded while it cannot be looked at": {
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
				m := newManagement(t, kinds("capi-system"), deployment("capi-system", ""))
				check := &Check{Reader: m}
				for i, look := range looks {
					time.Sleep(look.after)
					m.err = nil
					if look.version != "" {
						m.upgrade(t, look.version)
					}
					if look.broken {
						m.err = errors.New("the API server starts")
					}
					if got := check.Problem(t.Context()); (got == "") != look.want || m.reads != look.reads {
						t.Errorf("look %d: %q after %d reads, want %t after %d", i+1, got, m.reads, look.want, look.reads)
					}
				}
			})
		})
	}
}
