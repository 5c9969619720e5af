// SPDX-License-Identifier: Apache-2.0

package dashboards

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// troubles causes the alerts, except those that take half an hour, and waits until each is pending or firing. The cases in rules.test.yaml
// are invented. This test shows that a real manager reports the series that the rules need.
func (f *fixture) troubles() {
	f.Helper()
	f.lock("locked", infrav1.IdentityPassword, "not the password")
	f.create("locked", "locked", "")
	f.raised("PortalLoginRefused")

	f.lock("away", infrav1.IdentityBaseURL, "https://"+freeAddress(f.T))
	f.create("away", "away", "")
	f.raised("PortalUnreachable")

	f.create("gone", f.box.Identity.Name, "cluster-that-nobody-knows")
	f.raised("PortalClusterGone")

	f.inject(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Count: 1, After: true, Cut: true})
	f.create("lost", f.box.Identity.Name, "")
	f.raised("PortalOutcomeUnknown")

	f.inject(emulator.Fault{Count: 3, Status: 429, RetryAfter: time.Second})
	f.create("limited", f.box.Identity.Name, "")
	f.raised("PortalRateLimited")

	f.box.StopManager()
	f.raised("PortalNoActiveManager")
}

// raised waits until an alert is pending or firing.
func (f *fixture) raised(alert string) {
	f.Helper()
	f.eventually("the alert "+alert, func() string { return f.none(`ALERTS{alertname="` + alert + `"}`) })
}

func (f *fixture) inject(fault emulator.Fault) {
	f.Helper()
	if err := f.box.Portal.Inject(fault); err != nil {
		f.Fatal(err)
	}
}

// lock creates an identity Secret with one key changed.
func (f *fixture) lock(name, key, value string) {
	f.Helper()
	secret := f.box.IdentitySecret(client.ObjectKey{Namespace: f.box.Identity.Namespace, Name: name})
	secret.StringData[key] = value
	if err := f.box.Client.Create(f.Context(), secret); err != nil {
		f.Fatal(err)
	}
}

// create creates a Cluster with one worker and that identity. If clusterID is not empty, the Cluster adopts that portal cluster.
func (f *fixture) create(name, identity, clusterID string) {
	f.Helper()
	key := client.ObjectKey{Namespace: f.box.Identity.Namespace, Name: name}
	objects, err := f.box.GenerateCluster(f.Context(), key, "--kubernetes-version", "v1.36.3", "--control-plane-machine-count", "1", "--worker-machine-count", "1")
	if err != nil {
		f.Fatal(err)
	}
	for _, object := range objects {
		switch object.GetKind() {
		case "PortalCluster":
			err = unstructured.SetNestedField(object.Object, identity, "spec", "identityRef", "name")
		case "PortalControlPlane":
			if clusterID != "" {
				err = unstructured.SetNestedField(object.Object, clusterID, "spec", "clusterID")
			}
		}
		if err != nil {
			f.Fatal(err)
		}
		if err := f.box.Client.Create(f.Context(), object); err != nil {
			f.Fatal(err)
		}
	}
}
