// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestLookup: a pass never waits for the version. The version is requested again after an operation, and the request to a server
// that hangs is given up.
func TestLookup(t *testing.T) {
	var asked atomic.Int32
	var hang atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if hang.Load() {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"gitVersion":"v1.35.6"}`)
	}))
	defer server.Close()
	who := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "prod"}}
	l := &versionLookups{}
	l.source()
	config := &rest.Config{Host: server.URL}
	look := func(after string) versionLookup {
		start := time.Now()
		defer func() {
			if took := time.Since(start); took > lookupTimeout/2 {
				t.Errorf("a pass waited %s", took)
			}
		}()
		return l.answer(t.Context(), who, config, after)
	}
	if first := look("create"); first.answered() || first.failed() {
		t.Errorf("before any answer: %+v", first)
	}
	if woken := <-l.woken; woken.Object.GetName() != who.Name {
		t.Errorf("woken: %v", woken)
	}
	for range 3 {
		if found := look("create"); !found.answered() || found.version != "v1.35.6" {
			t.Errorf("after the answer: %+v", found)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	hang.Store(true)
	if found := look("upgrade"); found.answered() {
		t.Errorf("the answer from before the upgrade counts: %+v", found)
	}
	<-l.woken
	if found := look("upgrade"); !found.failed() {
		t.Errorf("after a server that hangs: %+v", found)
	}
	l.forget(client.ObjectKeyFromObject(who))
	if len(l.last) != 0 {
		t.Error("it is not forgotten")
	}
}
