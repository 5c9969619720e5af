// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// laterNames is how many generated names after the one in spec are looked up: a backup may be older than that many failed
// creations.
const laterNames = 4

// firstWrite returns the first write to an object. It adds the finalizer. A new object also gets its UID in the record, and a
// name for its portal cluster. An object with a trace of an earlier life gets neither: it was cloned, moved or restored, or its
// annotations were replaced, which left its status as it was.
func (s *scope) firstWrite() func(*operation.State) {
	_, recorded := s.controlPlane.Annotations[infrav1.RecordAnnotation]
	elsewhere := recorded || s.Last != nil || conditions.Has(s.controlPlane, infrav1.ProvisionedCondition) ||
		isGenerated(s.controlPlane.Name, s.controlPlane.Spec.ClusterName)
	return func(next *operation.State) {
		controllerutil.AddFinalizer(s.controlPlane, infrav1.ControlPlaneFinalizer)
		if !elsewhere && s.controlPlane.Spec.ClusterID == "" {
			s.initializeNew(next)
		}
	}
}

// initializeNew records that the object never had a portal cluster, and generates a name for one if the user chose none.
func (s *scope) initializeNew(next *operation.State) {
	next.Record.UID = s.controlPlane.UID
	if s.controlPlane.Spec.ClusterName == "" {
		s.nameCluster(next)
	}
}

// nameCluster generates a name for the portal cluster.
func (s *scope) nameCluster(next *operation.State) {
	next.Record.Name = generateName(s.controlPlane.Name)
	s.controlPlane.Spec.ClusterName = next.Record.Name
}

// lookBeforeCreating looks for the portal cluster of an object with an earlier life. It is done when a portal cluster may be
// created.
func (r *Reconciler) lookBeforeCreating(ctx context.Context, s *scope) outcome.Outcome {
	cp := s.controlPlane
	if s.Record.UID == cp.UID {
		return outcome.Outcome{}
	}
	if infrav1.DecisionRetry.MadeOn(cp, string(cp.UID)) {
		if err := r.change(ctx, s, func(next *operation.State) {
			delete(cp.Annotations, infrav1.DecisionAnnotation)
			s.initializeNew(next)
		}); err != nil {
			return outcome.Fail(err)
		}
		return outcome.Outcome{}
	}
	id := ""
	o := r.memory(s).backoff.Do("restored", cp.Spec.ClusterName+" "+s.identity.Version, func() (o outcome.Outcome) {
		id, o = s.lookForCluster(ctx)
		return o
	})
	if !o.IsDone() || id == "" {
		return o
	}
	if err := r.change(ctx, s, func(*operation.State) { cp.Spec.ClusterID = id }); err != nil {
		return outcome.Fail(err)
	}
	return r.claim(ctx, s)
}

// lookForCluster asks the portal for the portal cluster of the object. It is done if the portal has it, under a name that the provider
// generated, or if it does not exist.
func (s *scope) lookForCluster(ctx context.Context) (id string, o outcome.Outcome) {
	found, byName, err := s.findByName(ctx)
	if err != nil {
		return "", outcome.FromPortalError(err).Prefix("look for the portal cluster of this object")
	}
	if len(found) == 1 && s.Record.Generated(s.controlPlane.Spec.ClusterName) {
		return found[0].ID, outcome.Outcome{}
	}
	all, err := s.identity.Portal.Instances(ctx)
	if err != nil {
		return "", outcome.FromPortalError(err).Prefix("look for the instances of the portal cluster of this object")
	}
	instances := s.namedLike(all)
	if byName && len(found)+len(instances) == 0 {
		return "", outcome.Outcome{}
	}
	return "", s.restoredOutcome(found, instances)
}

// findByName asks the portal for clusters with the name in spec and, if that was generated, with the names that follow it. The
// bool reports whether the answer is complete: the portal supports the lookup, and the name is known.
func (s *scope) findByName(ctx context.Context) (found []cloud.Cluster, byName bool, err error) {
	base, name := s.controlPlane.Name, s.controlPlane.Spec.ClusterName
	if name == "" {
		return nil, false, nil
	}
	for i := 0; i == 0 || i <= laterNames && isGenerated(base, name); i++ {
		some, err := s.identity.Portal.FindClusters(ctx, name)
		switch {
		case cloud.IsUnsupported(err):
			return nil, false, nil
		case err != nil:
			return nil, false, err
		}
		found = append(found, some...)
		name = operation.NameAfter(name)
	}
	return found, true, nil
}

// shownAt reports whether the portal shows the generated name at the id: in the kubeconfig, in the lookup by name, or in the record
// of an instance. Then the creation made that cluster. A name that is not shown proves nothing: the specification defines none of them.
func (r *Reconciler) shownAt(ctx context.Context, s *scope, id string, kubeconfig []byte) (bool, error) {
	portal, name := s.identity.Portal, s.Op().Target
	switch {
	case !s.Record.Generated(name), s.Op().Portal != "" && s.Op().Portal != portal.Address():
		return false, nil
	case bytes.Contains(kubeconfig, []byte(name)):
		return true, nil
	}
	if found, err := r.runner(s).Find(ctx); found == id || err != nil && !cloud.IsUnsupported(err) {
		return found == id, err
	}
	all, err := portal.Instances(ctx)
	return slices.ContainsFunc(all, func(i cloud.Instance) bool {
		return strings.HasPrefix(i.Name, name+"-") && bytes.Contains(i.Raw, []byte(strconv.Quote(id)))
	}), err
}

// namedLike returns the names of the instances that look like nodes of the object's portal cluster. They prove that it exists. If
// there are none, that proves nothing: the specification does not define the names of instances.
func (s *scope) namedLike(all []cloud.Instance) (names []string) {
	base, name := s.controlPlane.Name, s.controlPlane.Spec.ClusterName
	length := len(stem(base)) + operation.GeneratedLength
	for _, instance := range all {
		generated := isGenerated(base, instance.Name[:min(length, len(instance.Name))]) && strings.HasPrefix(instance.Name[length:]+"-", "-")
		chosen := name != "" && !isGenerated(base, name) && strings.HasPrefix(instance.Name+"-", name+"-")
		if generated || chosen {
			names = append(names, instance.Name)
		}
	}
	slices.Sort(names)
	return names
}

// restoredOutcome holds the object until a person decides.
func (s *scope) restoredOutcome(found []cloud.Cluster, instances []string) outcome.Outcome {
	seen := "The provider cannot ask the portal whether it exists"
	switch {
	case len(found) > 0:
		var ids []string
		for _, c := range found {
			ids = append(ids, fmt.Sprintf("%s (id %s)", c.Name, c.ID))
		}
		slices.Sort(ids)
		seen = "The portal has " + strings.Join(ids, " and ")
	case len(instances) > 0:
		seen = fmt.Sprintf("The portal runs instances that look like its nodes, for example %s", instances[0])
	}
	cp := s.controlPlane
	return outcome.StallFor(0, infrav1.RestoredObjectReason, "this object was cloned, moved, restored or replaced, and its portal cluster may exist. %s. If the "+
		"cluster exists, set spec.clusterID to its id. A later deletion of this object keeps the cluster, unless spec.deletionPolicy is Delete. "+
		"If the cluster does not exist, allow its creation: %s", seen, operation.Command(cp, infrav1.DecisionRetry, string(cp.UID)))
}
