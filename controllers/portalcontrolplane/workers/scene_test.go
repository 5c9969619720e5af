// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers/claims"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

var prod = client.ObjectKey{Namespace: "default", Name: "prod"}

// scene is a pass and a decision that was made in it.
type scene struct {
	pass.Pass
	decision
	drains map[string]string // what the provider's own drains wait for, by Node
}

// passed is a pass over a running cluster, with 3 workers of which one is free.
func passed(change ...func(*scene)) *scene {
	s := &scene{
		Pass: pass.Pass{
			ControlPlane: &infrav1.PortalControlPlane{}, Cluster: &clusterv1.Cluster{}, Tools: pass.Tools{Backoff: &outcome.Backoff{}},
			State: operation.State{Record: operation.Record{Version: "v1.36.3", Size: 3}},
		},
		decision: decision{desired: Desired{known: true, objects: 1}, plan: claims.Plan{Present: make([]claims.Node, 3), Free: 1, Desired: 2}},
	}
	s.ControlPlane.Spec.ClusterID, s.ControlPlane.Spec.Version, s.ControlPlane.Spec.Replicas = "k8s-1", "v1.36.3", ptr.To[int32](3)
	for _, f := range change {
		f(s)
	}
	return s
}

func inFlight(op operation.Operation) func(*scene) {
	return func(s *scene) { s.Last = &op }
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	return schemes.Of(t, corev1.AddToScheme, storagev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme)
}

// connection is a connection to a workload cluster whose API server is a client.
type connection struct{ client client.Client }

func (c *connection) Client() client.Client    { return c.client }
func (*connection) Health() workload.Health    { return workload.Working }
func (*connection) Version(string) string      { return "" }
func (*connection) ClockBehind() time.Duration { return 0 }

func (c *connection) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.client.List(ctx, list, opts...)
}

// stateOf is what the object stores.
func stateOf(cp *infrav1.PortalControlPlane) operation.State {
	state, err := operation.Load(cp)
	if err != nil {
		panic(err)
	}
	return state
}
