// SPDX-License-Identifier: Apache-2.0

package coreversion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

// management is a management cluster, as far as it shows core. It can be read or not, and counts how often it was.
type management struct {
	client.Client
	err   error
	reads int
}

func newManagement(t *testing.T, objects ...client.Object) *management {
	t.Helper()
	scheme := schemes.Of(t, appsv1.AddToScheme, apiextensionsv1.AddToScheme)
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

// TestProblem checks which version of core is recognized as tested, with each way of installing it, and the message if it is not.
func TestProblem(t *testing.T) {
	const none = ""
	unsaid := "the version of core is unknown, because "
	labelled := deployment("capi-system", "core@sha256:abc")
	labelled.Labels = map[string]string{"app.kubernetes.io/version": "1.14.2"}
	bare := deployment("capi-system", "")
	bare.Spec.Template.Spec.Containers = nil
	tests := map[string]struct {
		objects []client.Object
		want    string // part of it; none: it was tested
	}{
		"installed by no clusterctl": {[]client.Object{kinds("capi-system"), deployment("capi-system", "registry.k8s.io/cluster-api/cluster-api-controller:v1.14.2")}, none},
		"in a namespace of its own":  {[]client.Object{kinds("fleet"), deployment("fleet", "registry:5000/core:v1.14.0")}, none},
		"tag and digest":             {[]client.Object{kinds("capi-system"), deployment("capi-system", "registry:5000/core:v1.14.2@sha256:abc")}, none},
		"without a v":                {[]client.Object{kinds("capi-system"), deployment("capi-system", "core:1.14.0")}, none},
		"a candidate of it":          {[]client.Object{kinds("capi-system"), deployment("capi-system", "core:v1.14.3-rc.0")}, none},
		"by its label":               {[]client.Object{kinds("capi-system"), labelled}, none},
		"another minor": {[]client.Object{kinds("capi-system"), deployment("capi-system", "core:v1.15.0")},
			"core has version v1.15.0, but the provider was tested with 1.14 only"},
		"one that only begins like it": {[]client.Object{kinds("capi-system"), deployment("capi-system", "core:v1.140.0")}, "core has version v1.140.0"},
		"another major":                {[]client.Object{kinds("capi-system"), deployment("capi-system", "core:v2.14.0")}, "core has version v2.14.0"},
		"no version": {[]client.Object{kinds("capi-system"), deployment("capi-system", "registry:5000/core:latest")},
			unsaid + `the image of Deployment capi-system/capi-controller-manager, "registry:5000/core:latest", has no version as its tag`},
		"a digest only":      {[]client.Object{kinds("capi-system"), deployment("capi-system", "registry:5000/core@sha256:abc")}, unsaid},
		"no container":       {[]client.Object{kinds("capi-system"), bare}, unsaid},
		"a tenant's":         {[]client.Object{kinds("capi-system"), deployment("tenant", "core:v1.14.2")}, unsaid + "Deployment capi-system/capi-controller-manager does not exist"},
		"on another machine": {[]client.Object{kinds("")}, unsaid + "core's webhook is not a Service"},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			m := newManagement(t, test.objects...)
			check := &Check{Reader: m}
			if _, got, err := check.readVersion(t.Context()); err != nil || (got == none) != (test.want == none) || !strings.HasPrefix(got, test.want) {
				t.Errorf("%q, want %q; %v", got, test.want, err)
			}
		})
	}
}

// TestLook checks that the version is read again after a while, soon after a failed read, and that a warning is logged once for each
// version that was not tested.
func TestLook(t *testing.T) {
	m := newManagement(t, kinds("capi-system"), deployment("capi-system", "core:v1.14.2"))
	var reports, logged []string
	ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{}))
	check := &Check{Reader: m, Report: func(version string, tested bool) { reports = append(reports, fmt.Sprintf("%s %t", version, tested)) }}
	for i, step := range []struct {
		version string // that core is upgraded to before
		broken  bool
		report  string // the last one
		reports int    // so far
		logged  int    // so far
		next    time.Duration
	}{
		{report: "v1.14.2 true", reports: 1, next: maxAge},
		{version: "v1.15.0", report: "v1.15.0 false", reports: 2, logged: 1, next: maxAge},
		{report: "v1.15.0 false", reports: 3, logged: 1, next: maxAge},
		{broken: true, report: "v1.15.0 false", reports: 3, logged: 2, next: retryAfter},
		{version: "v1.14.3", report: "v1.14.3 true", reports: 4, logged: 2, next: maxAge},
	} {
		if m.err = nil; step.version != "" {
			m.upgrade(t, step.version)
		}
		if step.broken {
			m.err = errors.New("the API server starts")
		}
		next := check.look(ctx)
		if next != step.next || len(reports) != step.reports || reports[len(reports)-1] != step.report || len(logged) != step.logged {
			t.Errorf("step %d: again after %s, reports %q, logged %q", i+1, next, reports, logged)
		}
	}
}

// TestStart checks that a manager that stops ends the check.
func TestStart(t *testing.T) {
	m := newManagement(t, kinds("capi-system"), deployment("capi-system", "core:v1.14.2"))
	ctx, stop := context.WithCancel(t.Context())
	check := &Check{Reader: m, Report: func(string, bool) { stop() }}
	if err := check.Start(ctx); err != nil || m.reads != 1 {
		t.Errorf("%v after %d reads", err, m.reads)
	}
}
