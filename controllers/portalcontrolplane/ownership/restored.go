// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// firstWrite returns the first write to an object. It adds the finalizer. A new object also gets its UID in the record, and a
// name for its portal cluster. An object with a trace of an earlier life gets neither: it was cloned, moved or restored, or its
// annotations were replaced, which left its status as it was.
func firstWrite(p *pass.Pass) func(*operation.State) {
	_, recorded := p.ControlPlane.Annotations[infrav1.RecordAnnotation]
	elsewhere := recorded || p.Last != nil || conditions.Has(p.ControlPlane, infrav1.ProvisionedCondition) ||
		isGenerated(p.ControlPlane.Name, p.ControlPlane.Spec.ClusterName)
	return func(next *operation.State) {
		controllerutil.AddFinalizer(p.ControlPlane, infrav1.ControlPlaneFinalizer)
		if !elsewhere && p.ControlPlane.Spec.ClusterID == "" {
			initializeNew(p, next)
		}
	}
}

// initializeNew records that the object never had a portal cluster, and generates a name for one if the user chose none.
func initializeNew(p *pass.Pass, next *operation.State) {
	next.Record.UID = p.ControlPlane.UID
	if p.ControlPlane.Spec.ClusterName == "" {
		NameCluster(p, next)
	}
}

// HoldRestored holds an object with an earlier life until a person decides: its portal cluster may exist under an id that the object does
// not know, or that only a user may set. It is done when a portal cluster may be created.
func (k *Owners) HoldRestored(ctx context.Context, p *pass.Pass) outcome.Outcome {
	cp := p.ControlPlane
	known := cp.Annotations[infrav1.ClusterIDAnnotation]
	switch {
	case known != "":
		return outcome.StallFor(0, infrav1.RestoredObjectReason, "annotation %s says that portal cluster %s is the one of this object. Set spec.clusterID to "+
			"this id. A later deletion of this object keeps the cluster, unless spec.deletionPolicy is Delete. If the cluster does not exist any "+
			"more, remove the annotation", infrav1.ClusterIDAnnotation, known)
	case p.Record.UID == cp.UID:
		return outcome.Outcome{}
	case !infrav1.DecisionRetry.MadeOn(cp, string(cp.UID)):
		return outcome.StallFor(0, infrav1.RestoredObjectReason, "this object was cloned, moved, restored or replaced, and its portal cluster may exist. "+
			"Look for %s at the portal. If the cluster exists, set spec.clusterID to its id. A later deletion of this object keeps the cluster, "+
			"unless spec.deletionPolicy is Delete. If the cluster does not exist, allow its creation: %s",
			possibleNames(cp.Name, cp.Spec.ClusterName), operation.Command(cp, infrav1.DecisionRetry, string(cp.UID)))
	}
	if err := p.Change(ctx, func(next *operation.State) {
		delete(cp.Annotations, infrav1.DecisionAnnotation)
		initializeNew(p, next)
	}); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Outcome{}
}

// possibleNames describes the names that the object's portal cluster may have. The one in spec was replaced if it was generated and
// the creation failed later.
func possibleNames(base, name string) string {
	switch {
	case name == "":
		return fmt.Sprintf("a cluster whose name begins with %q", stem(base))
	case isGenerated(base, name):
		return fmt.Sprintf("a cluster named %q, or another whose name begins with %q,", name, stem(base))
	}
	return fmt.Sprintf("a cluster named %q", name)
}

// shownAt reports whether the portal shows the generated name at the id: in the kubeconfig, in the lookup by name, or in the record
// of an instance. Then the creation made that cluster. A name that is not shown proves nothing: the specification defines none of them.
func (k *Owners) shownAt(ctx context.Context, p *pass.Pass, id string, kubeconfig []byte) (bool, error) {
	portal, name := p.Identity.Portal, p.Op().Target
	switch {
	case !p.Record.Generated(name), p.Op().Portal != "" && p.Op().Portal != portal.Address():
		return false, nil
	case bytes.Contains(kubeconfig, []byte(name)):
		return true, nil
	}
	if found, err := p.Runner().Find(ctx); found.ID == id || err != nil && !cloud.IsUnsupported(err) {
		return found.ID == id, err
	}
	all, err := portal.Instances(ctx)
	return slices.ContainsFunc(all, func(i cloud.Instance) bool {
		return strings.HasPrefix(i.Name, name+"-") && bytes.Contains(i.Raw, []byte(strconv.Quote(id)))
	}), err
}

// NameCluster generates a name for the portal cluster.
func NameCluster(p *pass.Pass, next *operation.State) {
	next.Record.Name = generateName(p.ControlPlane.Name)
	p.ControlPlane.Spec.ClusterName = next.Record.Name
}

// generateName returns a name that a person can recognize at the portal, and that was never used before.
func generateName(base string) string {
	return stem(base) + rand.String(operation.GeneratedLength)
}

const (
	longestName   = 63
	generatedFrom = "bcdfghjklmnpqrstvwxz2456789" // what rand.String draws from: no words come of it
)

// stem is the part of a generated name that comes from the PortalControlPlane's name.
func stem(base string) string {
	base = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, base)
	return strings.Trim(base[:min(len(base), longestName-operation.GeneratedLength-1)], "-") + "-"
}

// isGenerated reports whether the provider could have generated the name.
func isGenerated(base, name string) bool {
	random, ours := strings.CutPrefix(name, stem(base))
	return ours && len(random) == operation.GeneratedLength && strings.Trim(random, generatedFrom) == ""
}
