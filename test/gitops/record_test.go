// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// recorded are the kinds of which a test records every version. GitOps applies most of them, and in a topology core creates some.
var recorded = []schema.GroupVersionKind{
	clusterv1.GroupVersion.WithKind("Cluster"),
	clusterv1.GroupVersion.WithKind("ClusterClass"),
	clusterv1.GroupVersion.WithKind("MachineDeployment"),
	infrav1.GroupVersion.WithKind("PortalCluster"),
	infrav1.GroupVersion.WithKind("PortalControlPlane"),
	infrav1.GroupVersion.WithKind("PortalMachineTemplate"),
	infrav1.GroupVersion.WithKind("PortalClusterTemplate"),
	infrav1.GroupVersion.WithKind("PortalControlPlaneTemplate"),
	infrav1.GroupVersion.WithKind("PortalBootstrapConfigTemplate"),
}

const absent = "absent"

// record holds the history of the fields of objects.
type record struct {
	mu     sync.Mutex
	values map[string][]string // by object and field, the values in order
	lost   []string            // removed fields
}

// watch records all versions of all objects until the test ends.
func (f *fixture) watch() {
	f.Helper()
	f.seen.values = map[string][]string{}
	for _, kind := range recorded {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		suite.Follow(f.T, live, list, func(e watch.Event) {
			if o, ok := e.Object.(*unstructured.Unstructured); ok && e.Type != watch.Deleted && o.GetDeletionTimestamp() == nil {
				f.seen.saw(o)
			}
		}, client.InNamespace(f.Namespace))
	}
}

func (r *record) saw(o *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, fields := id(o)+" "+string(o.GetUID())+" ", fieldsOf(o)
	for key := range r.values {
		if _, here := fields[strings.TrimPrefix(key, name)]; strings.HasPrefix(key, name) && !here {
			fields[strings.TrimPrefix(key, name)] = absent
		}
	}
	for field, value := range fields {
		values := r.values[name+field]
		if len(values) > 0 && values[len(values)-1] == value {
			continue
		}
		if value == absent {
			r.lost = append(r.lost, id(o)+" "+field)
		}
		r.values[name+field] = append(values, value)
	}
}

// fieldsOf flattens spec and metadata. It leaves out the values of the provider's annotations, which only the provider reads, and the annotation
// that keeps clusterctl from moving an object while an operation runs. It also leaves out three fields that core's topology controller sets and
// removes without GitOps too: its finalizer of a MachineDeployment, a Secret as the owner of a new control plane, and internal annotations
// during an upgrade.
func fieldsOf(o *unstructured.Unstructured) map[string]string {
	fields := map[string]string{}
	flatten(fields, "spec", o.Object["spec"])
	for _, finalizer := range o.GetFinalizers() {
		if strings.Contains(finalizer, infrav1.GroupVersion.Group) {
			fields["finalizer "+finalizer] = "set"
		}
	}
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind != "Secret" {
			fields["owner "+owner.Kind] = owner.Name
		}
	}
	for key, value := range o.GetLabels() {
		fields["label "+key] = value
	}
	for key, value := range o.GetAnnotations() {
		if key == clusterctlv1.BlockMoveAnnotation || strings.HasPrefix(key, "topology.internal.cluster.x-k8s.io/") {
			continue
		}
		if strings.HasPrefix(key, ours+"portal-") {
			value = "set"
		}
		fields["annotation "+key] = value
	}
	return fields
}

func flatten(into map[string]string, path string, value any) {
	if fields, ok := value.(map[string]any); ok {
		for key, inner := range fields {
			flatten(into, path+"."+key, inner)
		}
		return
	}
	into[path] = fmt.Sprint(value)
}

// flapped returns the fields that have returned to an earlier value.
func (r *record) flapped() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for field, values := range r.values {
		for i, value := range values {
			if slices.Contains(values[:i], value) {
				all = append(all, fmt.Sprintf("%s: %q", field, values))
				break
			}
		}
	}
	slices.Sort(all)
	return all
}

// gone returns the fields that were removed.
func (r *record) gone() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string{}, r.lost...)
}
