// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

// TestShown checks which conditions and actions the picture has for a Cluster: only reasons of the provider have a link, only those that do
// not pass by themselves are problems, and each action follows from the objects.
func TestShown(t *testing.T) {
	replicas := int32(1)
	o := objects{
		cluster:       &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "shop"}},
		portalCluster: &infrav1.PortalCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		controlPlane:  &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		deployments:   []clusterv1.MachineDeployment{{ObjectMeta: metav1.ObjectMeta{Name: "shop-workers"}}},
	}
	o.controlPlane.Spec.ClusterID, o.controlPlane.Spec.Version = "cluster-1", "v1"
	o.deployments[0].Spec.Replicas, o.deployments[0].Spec.Template.Spec.Version = &replicas, "v1"
	condition := func(name, status, reason string) metav1.Condition {
		return metav1.Condition{Type: name, Status: metav1.ConditionStatus(status), Reason: reason, Message: "says\n  why"}
	}
	o.cluster.Status.Conditions = []metav1.Condition{condition("Available", "False", "NotAvailable"), condition("Deleting", "False", "NotDeleting")}
	o.portalCluster.Status.Conditions = []metav1.Condition{condition("Ready", "False", infrav1.UnauthorizedReason)}
	o.controlPlane.Status.Conditions = []metav1.Condition{
		condition("Ready", "False", infrav1.ScalingDownReason), condition("Available", "True", infrav1.ReadyReason),
	}
	const says = "says why"
	want := page.Cluster{
		Name: "shop", ClusterID: "cluster-1", Wanted: 1,
		Conditions: []page.Condition{
			{Object: "Cluster shop", Type: "Available", Status: "False", Reason: "NotAvailable", Message: says},
			{Object: "PortalCluster shop", Type: "Ready", Status: "False", Reason: "Unauthorized", Message: says, Problem: true, Link: troubleshooting + "Unauthorized"},
			{Object: "PortalControlPlane shop", Type: "Available", Status: "True", Reason: "Ready", Message: says},
			{Object: "PortalControlPlane shop", Type: "Ready", Status: "False", Reason: "ScalingDown", Message: says, Link: troubleshooting + "ScalingDown"},
		},
		Actions: []page.Action{
			{Label: "+1 worker", Command: "kubectl scale machinedeployment shop-workers --replicas 2 --namespace fleet"},
			{Label: "−1 worker", Command: "kubectl scale machinedeployment shop-workers --replicas 0 --namespace fleet"},
			{Label: "Upgrade to v2", Command: `kubectl patch portalcontrolplane shop --type merge --patch '{"spec":{"version":"v2"}}' --namespace fleet`},
			{Label: "Roll out", Command: `kubectl patch machinedeployment shop-workers --type merge --patch '{"spec":{"rollout":{"after":"'$(date -u +%FT%TZ)'"}}}' --namespace fleet`},
		},
	}
	if diff := cmp.Diff(want, o.shown([]string{"v1", "v2"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	replicas, o.cluster.Namespace, o.controlPlane.Spec.Version, o.runningMachine = 0, "default", "v2", "shop-workers-a"
	var commands []string
	for _, action := range o.shown([]string{"v1", "v2"}).Actions {
		commands = append(commands, action.Command)
	}
	wantCommands := []string{ // nothing to remove, no newer version, and new Machines get the version of the control plane
		"kubectl scale machinedeployment shop-workers --replicas 1",
		"kubectl delete machine shop-workers-a --wait=false",
		`kubectl patch machinedeployment shop-workers --type merge --patch '{"spec":{"template":{"spec":{"version":"v2"}}}}'`,
	}
	if diff := cmp.Diff(wantCommands, commands); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	pool := clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: "shop-pool"}}
	o.deployments, o.pools, o.runningMachine = nil, []clusterv1.MachinePool{pool}, ""
	if actions := o.shown(nil).Actions; len(actions) != 1 || actions[0].Command != "kubectl scale machinepool shop-pool --replicas 1" {
		t.Errorf("a Cluster with a MachinePool only has the actions %v", actions)
	}
	now := metav1.Now()
	deleted, topology := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, &clusterv1.Cluster{}
	topology.Spec.Topology.ClassRef.Name = "class"
	for what, cluster := range map[string]*clusterv1.Cluster{"is being deleted": deleted, "has a topology": topology} {
		o.cluster = cluster
		if actions := o.shown(nil).Actions; len(actions) > 0 {
			t.Errorf("a Cluster that %s has actions: %v", what, actions)
		}
	}
}

// TestTroubleshooting checks that links of conditions lead to a heading that exists.
func TestTroubleshooting(t *testing.T) {
	_, heading, _ := strings.Cut(strings.TrimSuffix(troubleshooting, ":~:text="), "docs/reference.md#")
	text, err := os.ReadFile("../../../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	if heading == "" || !strings.Contains(strings.ToLower(string(text)), "\n## "+heading+"\n") {
		t.Errorf("docs/reference.md has no heading %q", heading)
	}
}
