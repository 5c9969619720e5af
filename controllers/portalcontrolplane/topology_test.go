// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/workers"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/test/topologies"
)

// TestAwaitTopology checks for how long a creation waits for the MachineDeployments of the topology.
func TestAwaitTopology(t *testing.T) {
	for title, test := range map[string]struct {
		missing   []string
		age       time.Duration
		templates []string
		own       *infrav1.WorkerParameters
		wait      time.Duration // or 0, if an event ends the wait
		says      string        // or "", if it does not wait
	}{
		"nothing is awaited":                  {age: time.Second},
		"within a minute":                     {missing: []string{"b", "a"}, age: 20 * time.Second, own: &infrav1.WorkerParameters{}, wait: 40 * time.Second, says: "a, b"},
		"later, with spec.workers":            {missing: []string{"a"}, age: time.Minute, own: &infrav1.WorkerParameters{}},
		"later, with the template of another": {missing: []string{"a"}, age: time.Minute, templates: []string{"t"}},
		"later, without either":               {missing: []string{"a"}, age: time.Minute, says: "spec.workers"},
	} {
		s := &scope{Pass: pass.Pass{ControlPlane: &infrav1.PortalControlPlane{}}}
		s.ControlPlane.Spec.Workers = test.own
		o := s.awaitTopology(workers.Desired{Templates: test.templates, Awaited: workers.Awaited{Names: test.missing}}, test.age)
		if o.IsDone() != (test.says == "") || !strings.Contains(o.Message, test.says) || o.RequeueAfter != test.wait {
			t.Errorf("%s: %+v", title, o)
		}
	}
}

// TestEnoughConcurrency checks that a topology needs one more than it has MachineDeployments, or MachinePools.
func TestEnoughConcurrency(t *testing.T) {
	for title, test := range map[string]struct {
		deployments, pools int
		annotation         string
		enough             bool
	}{
		"no MachineDeployment":        {enough: true},
		"one, no annotation":          {deployments: 1},
		"one, as many":                {deployments: 1, annotation: "1"},
		"one, one more":               {deployments: 1, annotation: "2", enough: true},
		"three, as many":              {deployments: 3, annotation: "3"},
		"not a number counts as one":  {deployments: 1, annotation: "many"},
		"a pool alone, no annotation": {pools: 1},
	} {
		cluster := topologies.With(make([]int32, test.deployments)...)
		cluster.Spec.Topology.Workers.MachinePools = make([]clusterv1.MachinePoolTopology, test.pools)
		cluster.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation: test.annotation}
		if o := enoughConcurrency(cluster); o.IsDone() != test.enough {
			t.Errorf("%s: %+v", title, o)
		}
	}
}

// TestReportTopology reports on a Cluster with two MachineDeployments, for every way in which its upgrade may get stuck. A pass that ended before it
// read them does not change the condition.
func TestReportTopology(t *testing.T) {
	for title, test := range map[string]struct {
		wanted, version, deployments, kubelet string
		stuck                                 string // or "", if the upgrade goes on
	}{
		"the upgrade is yet to begin":      {"v1.35.6", "v1.34.9", "v1.34.9", "v1.34.9", ""},
		"the portal upgrades":              {"v1.35.6", "v1.35.6", "v1.34.9", "v1.34.9", ""},
		"the first of two steps is done":   {"v1.36.3", "v1.35.6", "v1.34.9", "v1.35.6", "prod-a-x7k2p, prod-b-x7k2p"},
		"the MachineDeployments caught up": {"v1.36.3", "v1.35.6", "v1.35.6", "v1.35.6", ""},
		"kubelets of a vendor":             {"v1.35.6", "v1.35.6", "v1.35.6", "v1.35.6+portal.1", "spec.topology.version v1.35.6+portal.1"},
		"another build is on its way":      {"v1.35.6+p2", "v1.35.6+p2", "v1.35.6+p1", "v1.35.6+p1", ""},
		"created with the vendor's suffix": {"v1.35.6+portal.1", "v1.35.6+portal.1", "v1.35.6+portal.1", "v1.35.6+portal.1", ""},
	} {
		t.Run(title, func(t *testing.T) {
			s := scopeWithTopology(t, test.deployments)
			s.Cluster.Spec.Topology.Version, s.ControlPlane.Spec.Version = test.wanted, test.version
			s.nodes.Workers[0].Status.NodeInfo.KubeletVersion = test.kubelet
			s.reportTopology()
			c := conditions.Get(s.ControlPlane, infrav1.TopologyUpgradableCondition)
			if (c.Reason == infrav1.ReadyReason) != (test.stuck == "") || !strings.Contains(c.Message, test.stuck) {
				t.Errorf("%+v, want %q", c, test.stuck)
			}
			if test.stuck != "" && test.deployments != test.version {
				s.Last = operation.New(operation.Upgrade, test.version)
				if o := s.upgradable(); !o.IsDone() {
					t.Errorf("while the portal still upgrades: %+v", o)
				}
			}
			s.nodes, s.members = workers.Nodes{}, workers.Members{}
			for _, unread := range []outcome.Kind{outcome.Failed, outcome.Blocked, outcome.Retry, outcome.Done} {
				if s.outcomes[infrav1.WorkersReadyCondition] = (outcome.Outcome{Kind: unread}); unread == outcome.Done { // not reached
					delete(s.outcomes, infrav1.WorkersReadyCondition)
				}
				s.reportTopology()
				if now := conditions.Get(s.ControlPlane, infrav1.TopologyUpgradableCondition); *now != *c {
					t.Errorf("%+v after a pass that ended before it read the MachineDeployments: %v", now, unread)
				}
			}
		})
	}
}

// TestTopologyIsOptional: only Clusters with a topology have the condition, and it is removed with the topology.
func TestTopologyIsOptional(t *testing.T) {
	s := scopeWithTopology(t, "")
	s.Cluster.Annotations = nil
	s.reportTopology()
	if c := conditions.Get(s.ControlPlane, infrav1.TopologyUpgradableCondition); !strings.Contains(c.Message, "upgrade-concurrency") {
		t.Errorf("%+v", c)
	}
	s.Cluster = &clusterv1.Cluster{}
	if s.reportTopology(); conditions.Has(s.ControlPlane, infrav1.TopologyUpgradableCondition) {
		t.Error("a Cluster without a topology has the condition")
	}
}

// scopeWithTopology is a pass over a Cluster with two MachineDeployments of that version.
func scopeWithTopology(t *testing.T, version string) *scope {
	t.Helper()
	s := &scope{Pass: pass.Pass{ControlPlane: &infrav1.PortalControlPlane{}, Cluster: topologies.With(1, 1)}, outcomes: map[string]outcome.Outcome{}}
	s.nodes.Workers = make([]corev1.Node, 1)
	s.Cluster.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation: "100"}
	store := fake.NewClientBuilder().WithScheme(newScheme(t))
	for _, name := range []string{"a", "b"} {
		md := topologies.DeploymentOf(name)
		md.Labels[clusterv1.ClusterNameLabel], md.Spec.Template.Spec.Version = s.Cluster.Name, version
		store = store.WithObjects(&md)
	}
	var err error
	if s.members, err = workers.ReadMembers(t.Context(), store.Build(), s.Cluster); err != nil {
		t.Fatal(err)
	}
	s.outcomes[infrav1.WorkersReadyCondition] = outcome.Outcome{}
	return s
}
