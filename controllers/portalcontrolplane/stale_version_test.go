// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// apiServers is a ClusterCache whose API server reports the version. The answer does not change before the upgrade has ended.
type apiServers struct {
	clustercache.ClusterCache
	f *fixture
}

// GetRESTConfig implements clustercache.ClusterCache.
func (a apiServers) GetRESTConfig(context.Context, client.ObjectKey) (*rest.Config, error) {
	return &rest.Config{Host: "https://api.example", Transport: a}, nil
}

// RoundTrip implements http.RoundTripper.
func (a apiServers) RoundTrip(r *http.Request) (*http.Response, error) {
	version := before
	if a.f.portal.Clusters()[0].State != emulator.ClusterUpgrading {
		a.f.nodes.mu.Lock()
		defer a.f.nodes.mu.Unlock()
		version = a.f.nodes.version
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"gitVersion": "` + version + `"}`)),
	}, nil
}

// TestUpgradeIsSentOnce upgrades a cluster with passes at different intervals. In every pass the API server's answer is as old as
// the interval, up to half a minute. If the pass that sees the end of the upgrade compared an answer from before the end with
// spec.version, it would send the upgrade again, and the portal would replace every node a second time.
func TestUpgradeIsSentOnce(t *testing.T) {
	for _, every := range []time.Duration{time.Second, 6 * time.Second, 11 * time.Second, 29 * time.Second} {
		t.Run(every.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, 2, emulator.Durations{Upgrade: time.Minute})
				f.connected = true
				f.manager.ClusterCache = apiServers{clustercache.NewFakeClusterCache(f.nodes.Client, prod, "portalcontrolplane-watchNodes"), f}
				f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
				var s *scope
				for start := time.Now(); time.Since(start) < 5*time.Minute; time.Sleep(every) {
					s = f.pass()
				}
				if !conditions.IsTrue(s.controlPlane, infrav1.VersionUpToDateCondition) || s.record.Version != after || !f.allRun(after) {
					t.Errorf("not upgraded: %+v", s.outcomes[infrav1.VersionUpToDateCondition])
				}
				if answers := f.answers("upgrade"); len(answers) != 1 {
					t.Errorf("%d requests for one upgrade: %v", len(answers), answers)
				}
			})
		})
	}
}
