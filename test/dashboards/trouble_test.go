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
func (w *world) troubles() {
	w.Helper()
	w.lock("locked", infrav1.IdentityPassword, "not the password")
	w.create("locked", "locked", "")
	w.raised("LoginRefused")

	w.lock("away", infrav1.IdentityBaseURL, "https://"+freeAddress(w.T))
	w.create("away", "away", "")
	w.raised("PortalUnreachable")

	w.create("gone", w.box.Identity.Name, "cluster-that-nobody-knows")
	w.raised("ClusterGoneAtPortal")

	w.inject(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Count: 1, After: true, Cut: true})
	w.create("lost", w.box.Identity.Name, "")
	w.raised("OutcomeUnknown")

	w.inject(emulator.Fault{Count: 3, Status: 429, RetryAfter: time.Second})
	w.create("limited", w.box.Identity.Name, "")
	w.raised("RateLimited")

	w.box.StopManager()
	w.raised("NoActiveManager")
}

// raised waits until an alert is pending or firing.
func (w *world) raised(alert string) {
	w.Helper()
	w.eventually("the alert "+alert, func() string { return w.none(`ALERTS{alertname="` + alert + `"}`) })
}

func (w *world) inject(fault emulator.Fault) {
	w.Helper()
	if err := w.box.Portal.Inject(fault); err != nil {
		w.Fatal(err)
	}
}

// lock creates an identity Secret with one key changed.
func (w *world) lock(name, key, value string) {
	w.Helper()
	secret := w.box.IdentitySecret(client.ObjectKey{Namespace: w.box.Identity.Namespace, Name: name})
	secret.StringData[key] = value
	if err := w.box.Client.Create(w.Context(), secret); err != nil {
		w.Fatal(err)
	}
}

// create creates a Cluster with one worker and that identity. If clusterID is not empty, the Cluster adopts that portal cluster.
func (w *world) create(name, identity, clusterID string) {
	w.Helper()
	key := client.ObjectKey{Namespace: w.box.Identity.Namespace, Name: name}
	objects, err := w.box.GenerateCluster(w.Context(), key, "--kubernetes-version", "v1.36.3", "--control-plane-machine-count", "1", "--worker-machine-count", "1")
	if err != nil {
		w.Fatal(err)
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
			w.Fatal(err)
		}
		if err := w.box.Client.Create(w.Context(), object); err != nil {
			w.Fatal(err)
		}
	}
}
