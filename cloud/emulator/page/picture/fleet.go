// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

// Fleet is what a management cluster knows of the provider's Clusters. It follows the objects by watches, so a look costs one small request.
type Fleet struct {
	namespace string
	direct    client.Reader
	cache     cache.Cache
}

// aboutControlPlanes selects the events that tell what happened to portal clusters.
var aboutControlPlanes = fields.OneTermEqualSelector("involvedObject.kind", "PortalControlPlane")

// NewFleet reads the Clusters of a namespace, or of all namespaces if it is empty, until the context ends. It returns an error if the API
// server does not answer, or refuses to list a kind.
func NewFleet(ctx context.Context, config *rest.Config, namespace string) (*Fleet, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	direct, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	f := &Fleet{namespace: namespace, direct: direct}
	options := cache.Options{
		Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Event{}: {Field: aboutControlPlanes}},
	}
	if namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	if f.cache, err = cache.New(config, options); err != nil {
		return nil, err
	}
	go func() { _ = f.cache.Start(ctx) }() // it ends without an error when the context ends
	for _, list := range append((&contents{}).lists(), &corev1.EventList{}) {
		if err := f.ask(ctx, list); err != nil { // the cache would try forever
			return nil, err
		}
		if err := f.cache.List(ctx, list); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// ask lists one object without the cache.
func (f *Fleet) ask(ctx context.Context, list client.ObjectList) error {
	return f.direct.List(ctx, list, client.InNamespace(f.namespace), client.Limit(1))
}

// Read returns what is known. If the API server does not answer, or refuses, that is what it told last, with an error.
func (f *Fleet) Read(ctx context.Context) (page.Kubernetes, error) {
	c, events := &contents{}, &corev1.EventList{}
	for _, list := range append(c.lists(), events) {
		if err := f.cache.List(ctx, list); err != nil {
			return page.Kubernetes{}, err
		}
	}
	known := f.picture(c, events.Items)
	if err := f.ask(ctx, &clusterv1.ClusterList{}); err != nil {
		return known, fmt.Errorf("%w. This is what was known before", err)
	}
	return known, nil
}

// picture returns what a page shows. On it, the id of a portal cluster is the name of its Cluster, because some are not known to the portal
// yet. Clusters of other providers are not shown.
func (f *Fleet) picture(c *contents, events []corev1.Event) (known page.Kubernetes) {
	ids, ofControlPlane := map[client.ObjectKey]string{}, map[client.ObjectKey]string{}
	for _, o := range c.objects() {
		if o.controlPlane == nil && o.portalCluster == nil {
			continue
		}
		key := client.ObjectKeyFromObject(o.cluster)
		ids[key] = key.String()
		shown := o.shown(nil)
		shown.ClusterID, shown.Known, shown.Actions = ids[key], o.known(), []page.Action{}
		if f.namespace == "" {
			shown.Name = ids[key]
		}
		if o.controlPlane != nil {
			ofControlPlane[client.ObjectKeyFromObject(o.controlPlane)] = ids[key]
		}
		known.Clusters = append(known.Clusters, shown)
	}
	machines := slices.DeleteFunc(slices.Clone(c.machines.Items), func(m clusterv1.Machine) bool { return ids[keyOf(m.Namespace, m.Spec.ClusterName)] == "" })
	known.Machines = pictured(machines, c.portalMachines.Items, ids)
	known.Nodes = nodesOf(known.Machines, c.pools.Items, ids)
	known.Moments = moments(events, ofControlPlane)
	return known
}

// known returns what the objects know about the portal cluster.
func (o *objects) known() *page.Known {
	out := &page.Known{State: "Waiting", Ready: o.readyNodes}
	for _, p := range o.pools {
		out.Ready += int(ptr.Deref(p.Status.ReadyReplicas, 0))
	}
	c := o.controlPlane
	if c == nil {
		return out
	}
	out.Version = cmp.Or(c.Status.Version, c.Spec.Version)
	if c.Status.Workers != nil {
		out.Size = int(c.Status.Workers.Size)
	}
	switch ready := meta.FindStatusCondition(c.Status.Conditions, infrav1.ReadyCondition); {
	case !o.cluster.DeletionTimestamp.IsZero():
		out.State = "Deleting"
	case ready == nil:
	case ready.Status == metav1.ConditionTrue:
		out.State = "Running"
	default:
		out.State = ready.Reason
	}
	return out
}

// nodesOf returns the nodes of the Machines, and of the MachinePools, which have no Machines. Of a node that two Machines claim, the state is
// that of the one whose node is drained.
func nodesOf(machines []page.Machine, pools []clusterv1.MachinePool, ids map[client.ObjectKey]string) []page.Node {
	states := map[page.MachineState]page.NodeState{
		page.MachineJoining: page.NodeJoining, page.MachineDraining: page.NodeDraining, page.MachineDrained: page.NodeDrained,
	}
	var out []page.Node
	for _, m := range machines {
		if m.Node == "" {
			continue
		}
		state := cmp.Or(states[m.State], page.NodeUp)
		if i := slices.IndexFunc(out, func(n page.Node) bool { return n.ClusterID == m.ClusterID && n.Name == m.Node }); i >= 0 {
			if out[i].State == page.NodeUp {
				out[i].State = state
			}
			continue
		}
		out = append(out, page.Node{ClusterID: m.ClusterID, Name: m.Node, Version: m.Version, State: state})
	}
	for _, p := range pools {
		cluster := ids[keyOf(p.Namespace, p.Spec.ClusterName)]
		for _, ref := range p.Status.NodeRefs {
			if cluster != "" {
				out = append(out, page.Node{ClusterID: cluster, Name: ref.Name, State: page.NodeUp})
			}
		}
	}
	return out
}

// moments returns what the events tell, in the order of their times. A portal cluster has one job at a time, so a job ends with the next event
// that says so.
func moments(events []corev1.Event, clusters map[client.ObjectKey]string) (out []page.Moment) {
	slices.SortStableFunc(events, func(a, b corev1.Event) int { return timeOf(a).Compare(timeOf(b)) })
	jobs := map[string]string{} // the running one, by cluster
	for _, e := range events {
		cluster := clusters[keyOf(e.InvolvedObject.Namespace, e.InvolvedObject.Name)]
		if cluster == "" {
			continue
		}
		at := func(kind page.MomentKind, id, text string) {
			out = append(out, page.Moment{Time: timeOf(e), Cluster: cluster, Kind: kind, ID: id, Text: text})
		}
		switch e.Reason {
		case infrav1.EventOperationStarted:
			jobs[cluster] = string(e.UID)
			at(page.RequestMade, "", e.Message)
			at(page.JobBegan, jobs[cluster], cmp.Or(e.Action, "job"))
		case infrav1.EventOperationSucceeded:
			at(page.JobEnded, jobs[cluster], "succeeded")
		case infrav1.EventOperationFailed:
			at(page.JobEnded, jobs[cluster], "failed")
			at(page.Warned, "", e.Message)
		case infrav1.EventNodeDrainStarted:
			at(page.DrainBegan, "", e.Message)
		case infrav1.EventMachineMoved:
			at(page.MachineReplaced, "", e.Message)
		default:
			if e.Type == corev1.EventTypeWarning {
				at(page.Warned, "", strings.Join([]string{e.Reason, e.Message}, ": "))
			}
		}
	}
	return out
}

// timeOf returns when an event was told last. The provider uses the newer API of events, whose times the older one keeps in fields of their own.
func timeOf(e corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.LastTimestamp.Time
}
