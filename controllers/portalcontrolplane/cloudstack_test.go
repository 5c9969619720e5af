// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/profile"
	"github.com/capportal/cluster-api-provider-portal/controllers/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/ownership"
	"github.com/capportal/cluster-api-provider-portal/controllers/workers"
)

// TestLifeAtTheLikeliestPortal creates, scales, upgrades and deletes a cluster at the portal of the profile cloudstack, with all of its traits.
// Each wish is fulfilled without a person, and the portal has made one cluster.
func TestLifeAtTheLikeliestPortal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newCloudstackFixture(t, 3)
		s := f.until("creation", time.Hour, func(s *scope) bool {
			return s.ControlPlane.Spec.ClusterID != "" && len(f.workers()) == 3
		})
		f.id = s.ControlPlane.Spec.ClusterID
		for _, replicas := range []int{5, 2} {
			f.scale(int32(replicas))
			f.until("scale", 6*time.Hour, func(*scope) bool {
				cl := f.portal.Clusters()[0]
				return cl.Size == replicas && cl.State == emulator.ClusterRunning && len(f.workers()) == replicas
			})
		}
		f.change(func(cp *infrav1.PortalControlPlane) { cp.Spec.Version = after })
		f.until("upgrade", 6*time.Hour, func(s *scope) bool {
			return f.allRun(after) && conditions.IsTrue(s.ControlPlane, infrav1.VersionUpToDateCondition)
		})
		f.until("schedulable nodes", time.Hour, func(*scope) bool {
			return !slices.ContainsFunc(f.workers(), func(n corev1.Node) bool { return n.Spec.Unschedulable })
		})

		f.leave(departure{owner: "present", noted: "present"})
		for began := time.Now(); f.leaving() != nil; time.Sleep(10 * time.Second) {
			if time.Since(began) > 6*time.Hour {
				t.Fatal("the cluster is not deleted")
			}
		}
		made := 0
		for _, e := range f.portal.RequestLog() {
			if e.Object == "cluster" && e.To == string(emulator.ClusterCreating) {
				made++
			}
		}
		if left := f.portal.Clusters(); made != 1 || len(left) > 0 {
			t.Errorf("%d clusters were made, and these are left: %+v", made, left)
		}
		f.showRequests()
	})
}

// newCloudstackFixture has a control plane without a portal cluster, and one MachineDeployment. Of the portal's faults, it leaves out those after
// which a person has to look at the portal: lost answers to a creation, and deletions whose jobs never end.
func newCloudstackFixture(t *testing.T, replicas int) *fixture {
	t.Helper()
	f := &fixture{T: t, recorder: events.NewFakeRecorder(1000), nodes: &nodes{}}
	f.nodes.Client = fake.NewClientBuilder().WithScheme(newScheme(t)).WithIndex(&corev1.Pod{}, "spec.nodeName", nodeOfPod).Build()
	likeliest, err := profile.Load("cloudstack")
	if err != nil {
		t.Fatal(err)
	}
	options := emulator.Options{Seed: 1, Workloads: workloads{f.nodes}, Users: []emulator.User{{Email: "a@portal.example", Password: "secret"}}}
	likeliest.Apply(&options)
	options.Faults = slices.DeleteFunc(options.Faults, func(fault emulator.Fault) bool {
		return slices.Contains([]string{"slow creation", "empty answer", "deletion without an end"}, fault.ID)
	})
	options.Faults = append(options.Faults, emulator.Fault{
		ID: "slow creation", Method: "POST", Path: "/kubernetes-clusters", After: true, Delay: 20 * time.Second, DelayUpTo: 55 * time.Second,
	})
	if f.portal, err = emulator.New(options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.portal.Close)
	f.cloud = newCloud(t, "https://portal.example", f.portal.Transport())

	meta := metav1.ObjectMeta{
		Namespace: prod.Namespace, Name: prod.Name, UID: "uid-prod", CreationTimestamp: metav1.Now(),
		Labels: map[string]string{clusterv1.ClusterNameLabel: prod.Name},
	}
	cp := &infrav1.PortalControlPlane{ObjectMeta: *meta.DeepCopy()}
	cp.Spec.Version, cp.Spec.Replicas, cp.Spec.Description = before, ptr.To[int32](3), "d"
	template := &infrav1.PortalMachineTemplate{ObjectMeta: *meta.DeepCopy()}
	template.Spec.Template.Spec = infrav1.WorkerParameters{ServiceOfferingID: "small", SSHKeyPair: "ops"}
	md := &clusterv1.MachineDeployment{ObjectMeta: *meta.DeepCopy()}
	md.Name, md.Spec.Replicas = deployment, ptr.To(int32(replicas))
	md.Spec.Template.Spec.InfrastructureRef.Kind, md.Spec.Template.Spec.InfrastructureRef.Name = workers.TemplateKind, template.Name
	f.store = fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(cp, template, md).
		WithIndex(cp, ownership.PortalClusterIndex, ownership.IndexPortalCluster).
		WithIndex(&infrav1.PortalCluster{}, identity.SharedIndex, identity.IndexShared).
		WithStatusSubresource(cp, &clusterv1.Machine{}, &clusterv1.MachinePool{}).WithInterceptorFuncs(interceptor.Funcs{Patch: f.patch}).Build()
	f.restart()
	time.Sleep(time.Minute)
	return f
}

// until makes a whole pass every ten seconds until the wish is fulfilled.
func (f *fixture) until(wish string, patience time.Duration, fulfilled func(*scope) bool) *scope {
	f.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Second) {
		s := f.wholePass()
		if fulfilled(s) {
			return s
		}
		if time.Since(began) > patience {
			f.showRequests()
			for _, c := range s.ControlPlane.Status.Conditions {
				f.Logf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message)
			}
			f.Fatalf("%s: not done after %s: %+v", wish, patience, f.portal.Clusters())
		}
	}
}

// wholePass is what Reconcile does, from the creation on. The kubeconfig is no step here, because no API server answers.
func (f *fixture) wholePass() *scope {
	f.Helper()
	s := f.scope()
	s.PortalCluster = &infrav1.PortalCluster{Spec: infrav1.PortalClusterSpec{ZoneID: "zone-1"}}
	s.PortalCluster.Status.VPCID = f.portal.VPCs()[0].ID
	s.Identity = identity.Identity{Portal: f.cloud, Version: "1"}
	if !controllerutil.ContainsFinalizer(s.ControlPlane, infrav1.ControlPlaneFinalizer) {
		if err := f.manager.Ownership.Begin(f.Context(), &s.Pass); err != nil {
			f.Fatal(err)
		}
	}
	for _, step := range f.manager.steps() {
		var o outcome.Outcome
		switch {
		case step.condition == infrav1.KubeconfigReadyCondition:
		case step.condition == infrav1.ConnectedCondition && s.ControlPlane.Spec.ClusterID == "":
			o = outcome.WaitFor(0, infrav1.WaitingForDependencyReason, "there is no portal cluster yet")
		case step.condition == infrav1.ConnectedCondition:
			o = f.read(s)
		default:
			o = step.run(f.Context(), s)
		}
		if s.outcomes[step.condition] = o; o.Kind == outcome.Failed {
			f.Fatal(o.Err)
		}
	}
	s.updateStatus()
	return s
}
