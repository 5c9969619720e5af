// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

// troubleshooting explains each reason of the provider. A browser scrolls to the reason.
const troubleshooting = "https://github.com/capportal/cluster-api-provider-portal/blob/main/docs/reference.md#reasons:~:text="

// passing are the reasons of conditions that only wait until an operation or another step ends.
var passing = []string{
	infrav1.CreatingReason, infrav1.ScalingUpReason, infrav1.ScalingDownReason, infrav1.DrainingReason, infrav1.UpgradingReason,
	infrav1.DeletingReason, infrav1.ReleasedReason, infrav1.WaitingForOperationReason, infrav1.WaitingForDependencyReason,
	infrav1.WaitingForObjectReason, infrav1.WaitingForNodesReason, infrav1.NodesUnclaimedReason,
	infrav1.PortalBusyReason, conditions.NotYetReportedReason,
}

// objects are those of one Cluster.
type objects struct {
	cluster        *clusterv1.Cluster
	portalCluster  *infrav1.PortalCluster
	controlPlane   *infrav1.PortalControlPlane
	deployments    []clusterv1.MachineDeployment // by name
	pools          []clusterv1.MachinePool
	runningMachine string // the first by name, if any
	readyNodes     int    // of Machines
}

// contents are the objects of all Clusters that are read.
type contents struct {
	clusters       clusterv1.ClusterList
	machines       clusterv1.MachineList
	deployments    clusterv1.MachineDeploymentList
	pools          clusterv1.MachinePoolList
	portalClusters infrav1.PortalClusterList
	controlPlanes  infrav1.PortalControlPlaneList
	portalMachines infrav1.PortalMachineList
}

func (c *contents) lists() []client.ObjectList {
	return []client.ObjectList{&c.clusters, &c.machines, &c.deployments, &c.pools, &c.portalClusters, &c.controlPlanes, &c.portalMachines}
}

// Read returns the Clusters and Machines of a management cluster. versions are those that the portal offers, oldest first.
func Read(ctx context.Context, reader client.Reader, versions []string) (page.Kubernetes, error) {
	c := &contents{}
	for _, list := range c.lists() {
		if err := reader.List(ctx, list); err != nil {
			return page.Kubernetes{}, err
		}
	}
	ids := map[client.ObjectKey]string{} // of portal clusters, by Cluster
	for _, p := range c.controlPlanes.Items {
		ids[keyOf(p.Namespace, p.Labels[clusterv1.ClusterNameLabel])] = p.Spec.ClusterID
	}
	known := page.Kubernetes{Machines: pictured(c.machines.Items, c.portalMachines.Items, ids)}
	for _, o := range c.objects() {
		known.Clusters = append(known.Clusters, o.shown(versions))
	}
	return known, nil
}

func keyOf(namespace, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: name}
}

// objects returns the objects of each Cluster, sorted by namespace and name. Objects without a Cluster are not among them.
func (c *contents) objects() []*objects {
	all := map[client.ObjectKey]*objects{}
	for i := range c.clusters.Items {
		all[client.ObjectKeyFromObject(&c.clusters.Items[i])] = &objects{cluster: &c.clusters.Items[i]}
	}
	of := func(namespace, cluster string) *objects { return cmp.Or(all[keyOf(namespace, cluster)], &objects{}) }
	for i, p := range c.portalClusters.Items {
		of(p.Namespace, p.Labels[clusterv1.ClusterNameLabel]).portalCluster = &c.portalClusters.Items[i]
	}
	for i, p := range c.controlPlanes.Items {
		of(p.Namespace, p.Labels[clusterv1.ClusterNameLabel]).controlPlane = &c.controlPlanes.Items[i]
	}
	for _, d := range c.deployments.Items {
		o := of(d.Namespace, d.Spec.ClusterName)
		o.deployments = append(o.deployments, d)
	}
	for _, p := range c.pools.Items {
		o := of(p.Namespace, p.Spec.ClusterName)
		o.pools = append(o.pools, p)
	}
	for _, m := range c.machines.Items {
		o := of(m.Namespace, m.Spec.ClusterName)
		if m.DeletionTimestamp.IsZero() && m.Status.NodeRef.IsDefined() && (o.runningMachine == "" || m.Name < o.runningMachine) {
			o.runningMachine = m.Name
		}
		if m.Status.NodeRef.IsDefined() && meta.IsStatusConditionTrue(m.Status.Conditions, clusterv1.MachineNodeReadyCondition) {
			o.readyNodes++
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *objects) int {
		return cmp.Or(cmp.Compare(a.cluster.Namespace, b.cluster.Namespace), cmp.Compare(a.cluster.Name, b.cluster.Name))
	})
}

// shown returns what the picture shows of the objects. versions are those that the portal offers, oldest first.
func (o *objects) shown(versions []string) page.Cluster {
	out := page.Cluster{Name: o.cluster.Name, Conditions: []page.Condition{}, Actions: []page.Action{}}
	out.Conditions = append(out.Conditions, conditionsOf("Cluster", o.cluster, clusterv1.AvailableCondition)...)
	if o.portalCluster != nil {
		out.Conditions = append(out.Conditions, conditionsOf("PortalCluster", o.portalCluster, infrav1.ReadyCondition)...)
	}
	if o.controlPlane != nil {
		out.ClusterID = o.controlPlane.Spec.ClusterID
		out.Conditions = append(out.Conditions, conditionsOf("PortalControlPlane", o.controlPlane, infrav1.AvailableCondition, infrav1.ReadyCondition)...)
	}
	for i := range o.deployments {
		d := &o.deployments[i]
		out.Conditions = append(out.Conditions, conditionsOf("MachineDeployment", d, clusterv1.AvailableCondition)...)
		out.Wanted += int(ptr.Deref(d.Spec.Replicas, 0))
	}
	for _, p := range o.pools {
		out.Wanted += int(ptr.Deref(p.Spec.Replicas, 0))
	}
	// The topology controller would undo a change of a MachineDeployment or control plane that it owns.
	if o.cluster.DeletionTimestamp.IsZero() && o.controlPlane != nil && !o.cluster.Spec.Topology.IsDefined() {
		out.Actions = append(out.Actions, o.actions(versions)...)
	}
	return out
}

// conditionsOf returns the conditions of an object that have one of the types, in the order of the types.
func conditionsOf(kind string, object interface {
	client.Object
	conditions.Getter
}, types ...string,
) (out []page.Condition) {
	for _, name := range types {
		c := meta.FindStatusCondition(object.GetConditions(), name)
		if c == nil {
			continue
		}
		shown := page.Condition{
			Object: kind + " " + object.GetName(), Type: c.Type, Status: string(c.Status), Reason: c.Reason,
			Message: strings.Join(strings.Fields(c.Message), " "),
		}
		if c.Status != metav1.ConditionTrue && strings.HasPrefix(kind, "Portal") { // the reasons of core are not the provider's
			shown.Problem, shown.Link = !slices.Contains(passing, c.Reason), troubleshooting+c.Reason
		}
		out = append(out, shown)
	}
	return out
}

// actions returns what a user can do to the Cluster. A command is complete, so that it can be pasted into a shell.
func (o *objects) actions(versions []string) (out []page.Action) {
	namespace := ""
	if o.cluster.Namespace != metav1.NamespaceDefault {
		namespace = " --namespace " + o.cluster.Namespace
	}
	add := func(label, format string, arguments ...any) {
		out = append(out, page.Action{Label: label, Command: "kubectl " + fmt.Sprintf(format, arguments...) + namespace})
	}
	version := o.controlPlane.Spec.Version
	scale := func(kind, name string, replicas int32) {
		add("+1 worker", "scale %s %s --replicas %d", kind, name, replicas+1)
		if replicas > 0 {
			add("−1 worker", "scale %s %s --replicas %d", kind, name, replicas-1)
		}
	}
	if len(o.deployments) > 0 {
		scale("machinedeployment", o.deployments[0].Name, ptr.Deref(o.deployments[0].Spec.Replicas, 0))
	} else if len(o.pools) > 0 {
		scale("machinepool", o.pools[0].Name, ptr.Deref(o.pools[0].Spec.Replicas, 0))
	}
	if i := slices.Index(versions, version); i >= 0 && i+1 < len(versions) {
		add("Upgrade to "+versions[i+1], `patch portalcontrolplane %s --type merge --patch '{"spec":{"version":"%s"}}'`, o.controlPlane.Name, versions[i+1])
	}
	if o.runningMachine != "" {
		add("Delete a Machine", "delete machine %s --wait=false", o.runningMachine)
	}
	if len(o.deployments) > 0 {
		name, change := o.deployments[0].Name, `{"rollout":{"after":"'$(date -u +%FT%TZ)'"}}`
		if have := o.deployments[0].Spec.Template.Spec.Version; have != version && slices.Contains(versions, version) {
			change = fmt.Sprintf(`{"template":{"spec":{"version":"%s"}}}`, version)
		}
		add("Roll out", `patch machinedeployment %s --type merge --patch '{"spec":%s}'`, name, change)
	}
	return out
}
