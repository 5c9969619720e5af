// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// person does what conditions ask for, ten minutes after they began to, and what the portal's operator does about clusters in Alert and about
// jobs that do not end.
type person struct {
	*World
	next  time.Time
	since map[string]time.Time // when each request, and each trouble at the portal, was first seen
	seen  map[string]bool      // in this look
}

// Times after which people act.
const (
	personTakes   = 10 * time.Minute
	operatorTakes = time.Hour
)

var decision = regexp.MustCompile(infrav1.DecisionAnnotation + `=(\S+?:[^\s.]+)`)

// look is called after each step, and acts once in a minute.
func (p *person) look() {
	if time.Now().Before(p.next) {
		return
	}
	p.next, p.seen = time.Now().Add(time.Minute), map[string]bool{}
	p.operate()
	for _, cp := range list[infrav1.PortalControlPlane](p.World, p.management, infraResource("portalcontrolplanes")) {
		p.answer(cp, cp.Status.Conditions)
	}
	for _, pc := range list[infrav1.PortalCluster](p.World, p.management, infraResource("portalclusters")) {
		p.answer(pc, pc.Status.Conditions)
	}
	for what := range p.since {
		if !p.seen[what] {
			delete(p.since, what)
		}
	}
}

func infraResource(plural string) schema.GroupResource {
	return schema.GroupResource{Group: infrav1.GroupVersion.Group, Resource: plural}
}

// waited reports whether the trouble has lasted for that long.
func (p *person) waited(trouble string, long time.Duration) bool {
	p.seen[trouble] = true
	if _, known := p.since[trouble]; !known {
		p.since[trouble] = time.Now()
	}
	return time.Since(p.since[trouble]) >= long
}

// operate repairs clusters in Alert, and ends jobs that would never end. What is left of a failed creation may hold a network that only one
// cluster can have. The person deletes it on the portal's pages, as docs/troubleshooting.md says.
func (p *person) operate() {
	for _, c := range p.Portal.Clusters() {
		if c.State == emulator.ClusterRunning || !p.waited(c.ID+string(c.State)+c.JobID, operatorTakes) {
			continue
		}
		if c.State == emulator.ClusterFailed {
			p.note("a person deletes %s, which failed", c.Name)
			_, err := p.pages().DeleteCluster(context.Background(), c.ID)
			p.note("the portal's answer: %v", err)
			continue
		}
		if p.Portal.Repair(c.ID) == nil {
			p.note("the portal's operator repaired %s, which was %s", c.Name, c.State)
		}
	}
}

// answer follows the command in the message of a condition. A person who is asked whether a creation happened looks at the portal first.
func (p *person) answer(obj client.Object, conditions []metav1.Condition) {
	for _, c := range conditions {
		found := decision.FindStringSubmatch(c.Message)
		if found == nil || !p.waited(string(obj.GetUID())+found[1], personTakes) {
			continue
		}
		if cp, ok := obj.(*infrav1.PortalControlPlane); ok && creates(cp) && p.adopt(cp) {
			return
		}
		if pc, ok := obj.(*infrav1.PortalCluster); ok && c.Reason == infrav1.OutcomeUnknownReason && p.adoptNetwork(pc) {
			return
		}
		p.note("a person decides %s", found[1])
		before, _ := obj.DeepCopyObject().(client.Object)
		metav1.SetMetaDataAnnotation(pointTo(obj), infrav1.DecisionAnnotation, found[1])
		p.must(p.client.Patch(context.Background(), obj, client.MergeFrom(before)))
		return
	}
}

// creates reports whether the creation of the portal cluster has not ended: the question is about it, also while the object is being deleted.
func creates(cp *infrav1.PortalControlPlane) bool {
	state, err := operation.Load(cp)
	return err == nil && state.Op().Is(operation.Create) && cp.Spec.ClusterID == ""
}

// adoptNetwork sets the id of the network that a lost creation made, and reports whether there is one.
func (p *person) adoptNetwork(pc *infrav1.PortalCluster) bool {
	networks := p.Portal.Networks()
	i := slices.IndexFunc(networks, func(n emulator.Network) bool { return pc.Spec.Network != nil && n.CIDR == pc.Spec.Network.CIDR })
	if i >= 0 {
		p.note("a person finds %s", networks[i].ID)
		Edit(p.World, client.ObjectKeyFromObject(pc), pc, func(pc *infrav1.PortalCluster) { pc.Spec.Network = &infrav1.PortalNetwork{ID: networks[i].ID} })
	}
	return i >= 0
}

func pointTo(obj client.Object) *metav1.ObjectMeta {
	switch o := obj.(type) {
	case *infrav1.PortalControlPlane:
		return &o.ObjectMeta
	case *infrav1.PortalCluster:
		return &o.ObjectMeta
	}
	return &metav1.ObjectMeta{}
}

// adopt sets the id of the cluster that a lost creation made, and reports whether there is one, or may still be. Not every portal shows a name by
// which the provider would know that it may delete that cluster, so the person says so, too.
func (p *person) adopt(cp *infrav1.PortalControlPlane) bool {
	for _, c := range p.Portal.Clusters() {
		if c.Name != cp.Spec.ClusterName || c.State == emulator.ClusterFailed {
			continue
		}
		if c.State == emulator.ClusterRunning {
			p.note("a person finds %s", c.ID)
			Edit(p.World, client.ObjectKeyFromObject(cp), cp, func(cp *infrav1.PortalControlPlane) {
				cp.Spec.ClusterID, cp.Spec.DeletionPolicy = c.ID, infrav1.DeletionPolicyDelete
			})
		}
		return true
	}
	return false
}
