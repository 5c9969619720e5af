// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/pass"
)

// withTopology is a Cluster whose topology has so many MachineDeployments, named a, b, c… A negative number means nil replicas.
func withTopology(replicas ...int32) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}
	cluster.Spec.Topology.ClassRef.Name = "portal"
	for i, n := range replicas {
		md := clusterv1.MachineDeploymentTopology{Name: string(rune('a' + i)), Replicas: &n}
		if n < 0 {
			md.Replicas = nil
		}
		cluster.Spec.Topology.Workers.MachineDeployments = append(cluster.Spec.Topology.Workers.MachineDeployments, md)
	}
	return cluster
}

func deploymentOf(topologyName string) clusterv1.MachineDeployment {
	return clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{
		Name: "prod-" + topologyName + "-x7k2p", Labels: map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: topologyName},
	}}
}

func TestTopologyOf(t *testing.T) {
	alone := clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "a"}} // not of the topology, although its name is
	tests := map[string]struct {
		cluster     *clusterv1.Cluster
		deployments []clusterv1.MachineDeployment
		want        awaited
	}{
		"no topology":                 {&clusterv1.Cluster{}, []clusterv1.MachineDeployment{alone}, awaited{}},
		"none is there":               {withTopology(2, 3), []clusterv1.MachineDeployment{alone}, awaited{names: []string{"a", "b"}, replicas: 5}},
		"one is there":                {withTopology(2, 3), []clusterv1.MachineDeployment{deploymentOf("a")}, awaited{names: []string{"b"}, replicas: 3}},
		"all are there, and one more": {withTopology(2, 3), []clusterv1.MachineDeployment{deploymentOf("b"), deploymentOf("a"), deploymentOf("c")}, awaited{}},
		"no replicas are one":         {withTopology(-1, 0), nil, awaited{names: []string{"a", "b"}, replicas: 1}},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			made, got := topologyOf(test.cluster, test.deployments, nil)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(awaited{})); diff != "" {
				t.Error(diff)
			}
			if wanted := len(test.cluster.Spec.Topology.Workers.MachineDeployments); len(made)+len(got.names) != wanted {
				t.Errorf("%d made and %d awaited, of %d", len(made), len(got.names), wanted)
			}
		})
	}
}

// TestKeptFor: existing workers are kept for MachineDeployments that do not exist yet, and none are added for them.
func TestKeptFor(t *testing.T) {
	tests := map[string]struct{ awaited, sum, size, want int }{
		"nothing is awaited":                 {0, 2, 5, 0},
		"all are there":                      {3, 2, 5, 3},
		"more are there than anybody wants":  {3, 2, 9, 3},
		"some are there":                     {3, 2, 4, 2},
		"the cluster is yet to grow":         {3, 5, 4, 0},
		"the size is not known":              {3, 2, -1, 0},
		"the first of two has just appeared": {3, 0, 3, 3},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if got := (awaited{replicas: test.awaited}).keptFor(test.sum, test.size); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

func TestFirstSize(t *testing.T) {
	tests := map[string]struct {
		d    desired
		want int
	}{
		"the MachineDeployments are there":              {desired{sum: 3}, 3},
		"one is awaited":                                {desired{sum: 3, awaited: awaited{replicas: 2}}, 5},
		"none wanted, the portal insists on one":        {desired{sum: 1, stays: 1}, 1},
		"the portal insists on one, and that will come": {desired{sum: 1, stays: 1, awaited: awaited{replicas: 2}}, 2},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			if got := test.d.firstSize(); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

func TestAwaitTopology(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	after := func(age time.Duration, missing string, templates []string, workers *infrav1.WorkerParameters) outcome.Outcome {
		s := &scope{Pass: pass.Pass{ControlPlane: &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))}}}}
		s.ControlPlane.Spec.Workers = workers
		s.desired.templates = templates
		if missing != "" {
			s.desired.awaited = awaited{names: strings.Split(missing, ","), replicas: 1}
		}
		return s.awaitTopology(now)
	}
	own := &infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	if o := after(time.Second, "", nil, nil); !o.IsDone() {
		t.Errorf("nothing is awaited: %+v", o)
	}
	o := after(20*time.Second, "b,a", nil, own)
	if o.Kind != outcome.Wait || o.RequeueAfter != 40*time.Second || !strings.Contains(o.Message, "a, b") {
		t.Errorf("within a minute: %+v", o)
	}
	if o := after(-time.Hour, "a", nil, own); o.RequeueAfter != time.Minute {
		t.Errorf("a clock that is an hour behind: %+v", o)
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
			cluster := withTopology(make([]int32, test.deployments)...)
			if test.annotation != nil {
				cluster.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation: *test.annotation}
			}
			if o := enoughConcurrency(cluster); o.IsDone() != test.enough {
				t.Errorf("%+v", o)
			}
		})
	}
}

// TestReportTopology reports on a Cluster with two MachineDeployments, for every way in which its upgrade may get stuck.
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
			s := scopeWithTopology()
			s.Cluster.Spec.Topology.Version, s.ControlPlane.Spec.Version = test.wanted, test.version
			for i := range s.desired.topologyDeployments {
				s.desired.topologyDeployments[i].Spec.Template.Spec.Version = test.deployments
			}
			s.nodes[0].Status.NodeInfo.KubeletVersion = test.kubelet
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
			s.outcomes[infrav1.WorkersReadyCondition] = outcome.BlockedBy(infrav1.WaitingForDependencyReason, "")
			s.nodes, s.desired = nil, desired{}
			s.reportTopology()
			if after := conditions.Get(s.ControlPlane, infrav1.TopologyUpgradableCondition); *after != *before {
				t.Errorf("%+v while the connection is down", after)
			}
		})
	}
}

// TestTopologyIsOptional: only Clusters with a topology have the condition, and it is removed with the topology.
func TestTopologyIsOptional(t *testing.T) {
	s := scopeWithTopology()
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

func scopeWithTopology() *scope {
	s := &scope{Pass: pass.Pass{ControlPlane: &infrav1.PortalControlPlane{}, Cluster: withTopology(1, 1)}, nodes: make([]corev1.Node, 1), outcomes: map[string]outcome.Outcome{}}
	s.Cluster.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation: "100"}
	s.desired.topologyDeployments = []clusterv1.MachineDeployment{deploymentOf("a"), deploymentOf("b")}
	s.outcomes[infrav1.WorkersReadyCondition] = outcome.Outcome{}
	return s
}

// TestReportTopologyKeepsWhatWasTold: a pass that ended before it read the MachineDeployments does not change the condition.
func TestReportTopologyKeepsWhatWasTold(t *testing.T) {
	s := scopeWithTopology()
	s.Cluster.Spec.Topology.Version, s.ControlPlane.Spec.Version = "v1.36.3", "v1.35.6"
	s.desired.topologyDeployments[0].Spec.Template.Spec.Version, s.desired.topologyDeployments[1].Spec.Template.Spec.Version = "v1.34.9", "v1.34.9"
	s.reportTopology()
	told := conditions.Get(s.ControlPlane, infrav1.TopologyUpgradableCondition).Message
	for _, o := range []*outcome.Outcome{nil, {Kind: outcome.Failed}, {Kind: outcome.Blocked}, {Kind: outcome.Retry}} {
		s.desired.topologyDeployments, s.outcomes = nil, map[string]outcome.Outcome{}
		if o != nil {
			s.outcomes[infrav1.WorkersReadyCondition] = *o
		}
		s.reportTopology()
		if now := conditions.Get(s.ControlPlane, infrav1.TopologyUpgradableCondition).Message; now != told || !strings.Contains(now, "these MachineDeployments") {
			t.Errorf("after %+v: %s", o, now)
		}
	}
}
