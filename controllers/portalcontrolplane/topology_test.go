// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/workers"
	"github.com/capportal/cluster-api-provider-portal/test/topologies"
)

func TestAwaitTopology(t *testing.T) {
	after := func(age time.Duration, missing string, templates []string, own *infrav1.WorkerParameters) outcome.Outcome {
		s := &scope{Pass: pass.Pass{ControlPlane: &infrav1.PortalControlPlane{}}}
		s.ControlPlane.Spec.Workers = own
		desired := workers.Desired{Templates: templates}
		if missing != "" {
			desired.Awaited = workers.Awaited{Names: strings.Split(missing, ","), Replicas: 1}
		}
		return s.awaitTopology(desired, age)
	}
	own := &infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	if o := after(time.Second, "", nil, nil); !o.IsDone() {
		t.Errorf("nothing is awaited: %+v", o)
	}
	o := after(20*time.Second, "b,a", nil, own)
	if o.Kind != outcome.Wait || o.RequeueAfter != 40*time.Second || !strings.Contains(o.Message, "a, b") {
		t.Errorf("within a minute: %+v", o)
	}
	if o := after(time.Minute, "a", nil, own); !o.IsDone() {
		t.Errorf("after a minute, with spec.workers: %+v", o)
	}
	if o := after(time.Minute, "a", []string{"t"}, nil); !o.IsDone() {
		t.Errorf("after a minute, with the template of another MachineDeployment: %+v", o)
	}
	if o := after(time.Minute, "a", nil, nil); o.Kind != outcome.Wait || !strings.Contains(o.Message, "spec.workers") {
		t.Errorf("after a minute, with nothing to go by: %+v", o)
	}
}

func TestEnoughConcurrency(t *testing.T) {
	tests := map[string]struct {
		deployments int
		annotation  *string
		enough      bool
	}{
		"no MachineDeployment":       {0, nil, true},
		"one, no annotation":         {1, nil, false},
		"one, as many":               {1, ptr.To("1"), false},
		"one, one more":              {1, ptr.To("2"), true},
		"three, as many":             {3, ptr.To("3"), false},
		"three, far more":            {3, ptr.To("100"), true},
		"not a number counts as one": {1, ptr.To("many"), false},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			cluster := topologies.With(make([]int32, test.deployments)...)
			if test.annotation != nil {
				cluster.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation: *test.annotation}
			}
			if o := enoughConcurrency(cluster); o.IsDone() != test.enough {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestEnoughConcurrencyForPools checks that a topology with only a pool also needs more than core's default.
func TestEnoughConcurrencyForPools(t *testing.T) {
	cluster := topologies.With()
	cluster.Spec.Topology.Workers.MachinePools = []clusterv1.MachinePoolTopology{{Name: "pool"}}
	if enoughConcurrency(cluster).IsDone() {
		t.Error("core would not begin with the pool")
	}
}

// TestReportTopology reports on a Cluster with two MachineDeployments, for every way in which its upgrade may get stuck. A pass that ended before it
// read them does not change the condition.
func TestReportTopology(t *testing.T) {
	tests := map[string]struct {
		wanted, version, deployments, kubelet string
		reason, says                          string
	}{
		"all of one version":               {"v1.35.6", "v1.35.6", "v1.35.6", "v1.35.6", infrav1.ReadyReason, ""},
		"the upgrade is yet to begin":      {"v1.35.6", "v1.34.9", "v1.34.9", "v1.34.9", infrav1.ReadyReason, ""},
		"the portal upgrades":              {"v1.35.6", "v1.35.6", "v1.34.9", "v1.34.9", infrav1.ReadyReason, ""},
		"the MachineDeployments are next":  {"v1.35.6", "v1.35.6", "v1.34.9", "v1.35.6", infrav1.ReadyReason, ""},
		"the first of two steps is done":   {"v1.36.3", "v1.35.6", "v1.34.9", "v1.35.6", infrav1.TopologyNotUpgradableReason, "prod-a-x7k2p, prod-b-x7k2p"},
		"the MachineDeployments caught up": {"v1.36.3", "v1.35.6", "v1.35.6", "v1.35.6", infrav1.ReadyReason, ""},
		"kubelets of a vendor":             {"v1.35.6", "v1.35.6", "v1.35.6", "v1.35.6+portal.1", infrav1.TopologyNotUpgradableReason, "spec.topology.version v1.35.6+portal.1"},
		"another build is on its way":      {"v1.35.6+p2", "v1.35.6+p2", "v1.35.6+p1", "v1.35.6+p1", infrav1.ReadyReason, ""},
		"created with the vendor's suffix": {"v1.35.6+portal.1", "v1.35.6+portal.1", "v1.35.6+portal.1", "v1.35.6+portal.1", infrav1.ReadyReason, ""},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			s := scopeWithTopology(t, test.deployments)
			s.Cluster.Spec.Topology.Version, s.ControlPlane.Spec.Version = test.wanted, test.version
			s.nodes.Workers[0].Status.NodeInfo.KubeletVersion = test.kubelet
			s.reportTopology()
			c := conditions.Get(s.ControlPlane, infrav1.TopologyUpgradableCondition)
			if c == nil || c.Reason != test.reason || !strings.Contains(c.Message, test.says) {
				t.Errorf("%+v, want %s with %q", c, test.reason, test.says)
			}
			if test.reason == infrav1.TopologyNotUpgradableReason && test.deployments != test.version {
				s.Last = operation.New(operation.Upgrade, test.version)
				if o := s.upgradable(); !o.IsDone() {
					t.Errorf("while the portal still upgrades: %+v", o)
				}
			}
			before := c.DeepCopy()
			s.nodes, s.members = workers.Nodes{}, workers.Members{}
			for _, unread := range []*outcome.Outcome{nil, {Kind: outcome.Failed}, {Kind: outcome.Blocked}, {Kind: outcome.Retry}} {
				if delete(s.outcomes, infrav1.WorkersReadyCondition); unread != nil {
					s.outcomes[infrav1.WorkersReadyCondition] = *unread
				}
				s.reportTopology()
				if after := conditions.Get(s.ControlPlane, infrav1.TopologyUpgradableCondition); *after != *before {
					t.Errorf("%+v after a pass that ended before it read the MachineDeployments: %+v", after, unread)
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
	c := conditions.Get(s.ControlPlane, infrav1.TopologyUpgradableCondition)
	if c.Reason != infrav1.TopologyNotUpgradableReason || !strings.Contains(c.Message, "upgrade-concurrency") {
		t.Errorf("%+v", c)
	}
	s.Cluster = &clusterv1.Cluster{}
	s.reportTopology()
	if conditions.Has(s.ControlPlane, infrav1.TopologyUpgradableCondition) {
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
