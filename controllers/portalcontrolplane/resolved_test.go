// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// lose makes the portal carry out the next creation, with an answer that is lost or a job that it does not know.
func (e *estate) lose(forgotten bool) {
	e.Helper()
	fault := emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Count: 1, Cut: true, After: true}
	if forgotten {
		fault = emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Count: 1, Job: emulator.JobForgotten}
	}
	e.must(e.portal.Inject(fault))
}

// another makes a person create a portal cluster on the portal's pages, and returns its id.
func (e *estate) another() string {
	e.Helper()
	versions, err := e.cloud.KubernetesVersions(e.Context())
	if err != nil {
		e.Fatal(err)
	}
	if _, err := e.cloud.CreateCluster(e.Context(), cloud.CreateClusterRequest{
		Name: "theirs", Description: "d", ZoneID: "z", ServiceOfferingID: "large", Size: 3, ControlNodes: 1, SSHKeyPair: "k",
		KubernetesVersionID: versions[0].ID, VPCID: e.portal.VPCs()[0].ID,
	}); err != nil {
		e.Fatal(err)
	}
	time.Sleep(time.Minute)
	clusters := e.portal.Clusters()
	return clusters[len(clusters)-1].ID
}

// TestResolvedCreation: the answer to a creation is lost, and a person sets spec.clusterID, as the message asks for. The portal cluster
// that the object created is deleted with the object, and any other one is kept. The message and the event say so before.
func TestResolvedCreation(t *testing.T) {
	type row struct {
		forgotten, theirs bool
		chosen            string
		policy            infrav1.DeletionPolicy
		want              infrav1.DeletionPolicy
		event             string
	}
	cases(t, map[string]row{
		"its own":                        {want: infrav1.DeletionPolicyDelete, event: "this object created it"},
		"its own, whose job is unknown":  {forgotten: true, want: infrav1.DeletionPolicyDelete, event: "this object created it"},
		"its own, Retain":                {policy: infrav1.DeletionPolicyRetain, want: infrav1.DeletionPolicyRetain, event: "this object created it"},
		"under a chosen name":            {chosen: "main", want: infrav1.DeletionPolicyRetain, event: "this object did not create"},
		"under a chosen name, Delete":    {chosen: "main", policy: infrav1.DeletionPolicyDelete, want: infrav1.DeletionPolicyDelete, event: "this object did not create"},
		"another":                        {theirs: true, want: infrav1.DeletionPolicyRetain, event: "this object did not create"},
		"another, while a job is sought": {theirs: true, forgotten: true, want: infrav1.DeletionPolicyRetain, event: "this object did not create"},
	}, func(t *testing.T, test row) {
		e := newEstate(t, false)
		e.lose(test.forgotten)
		key := e.add("fleet", "prod", func(cp *infrav1.PortalControlPlane) {
			cp.Spec.ClusterName, cp.Spec.DeletionPolicy = test.chosen, test.policy
		})
		if o := e.passes(key)[key]; o.Reason != infrav1.OutcomeUnknownReason || !strings.Contains(o.Message, "later deleted with this object if the portal shows") {
			t.Fatalf("%+v", o)
		}
		id := e.portal.Clusters()[0].ID
		if test.theirs {
			id = e.another()
		}
		e.events()
		e.change(key, func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = id })
		if o := e.passes(key)[key]; !o.IsDone() || !e.scope(key).Owns() {
			t.Fatalf("%+v, %+v", o, e.record(key))
		}
		if got := strings.Join(e.events(), "\n"); !strings.Contains(got, test.event) || !strings.Contains(got, "deletionPolicy "+string(test.want)+" applies") {
			t.Errorf("events %s", got)
		}
		own := strings.Contains(test.event, "created it")
		if record := e.record(key); (record.Workers != nil) != own || record.TakenOver == own || !own && record.Size != operation.SizeUnknown {
			t.Errorf("%+v", record)
		}
		e.delete(key)
		if deleted := e.asked("DELETE") == 1; deleted != (test.want == infrav1.DeletionPolicyDelete) || e.asked("POST") != map[bool]int{false: 1, true: 2}[test.theirs] {
			t.Errorf("%d creations, %d deletions", e.asked("POST"), e.asked("DELETE"))
		}
	})
}

// TestResolvedTooEarly sets an id that the portal does not know, or that of a cluster that does not run yet. The object waits, and then
// finds out whether the cluster is its own.
func TestResolvedTooEarly(t *testing.T) {
	cases(t, map[string]bool{"a wrong id": true, "still being created": false}, func(t *testing.T, wrong bool) {
		e := newEstate(t, false)
		e.lose(false)
		e.must(e.portal.Inject(emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Count: 1, JobDelay: 10 * time.Minute}))
		key := e.add("fleet", "prod", nil)
		e.passes(key)
		id, want := e.portal.Clusters()[0].ID, infrav1.WaitingForDependencyReason
		if wrong {
			id, want = "cluster-of-a-typo", infrav1.PortalClusterGoneReason
		}
		e.change(key, func(cp *infrav1.PortalControlPlane) { cp.Spec.ClusterID = id })
		o := e.passes(key)[key]
		if o.Reason != want || e.scope(key).Owns() {
			t.Fatalf("%+v, %+v", o, e.record(key))
		}
		e.change(key, func(cp *infrav1.PortalControlPlane) {
			conditions.Set(cp, metav1.Condition{Type: infrav1.ProvisionedCondition, Status: metav1.ConditionFalse, Reason: o.Reason})
			cp.Spec.ClusterID = e.portal.Clusters()[0].ID
		})
		time.Sleep(10 * time.Minute)
		if o := e.passes(key)[key]; !o.IsDone() || e.scope(key).DeletionPolicy() != infrav1.DeletionPolicyDelete {
			t.Errorf("%+v, %+v", o, e.record(key))
		}
	})
}

// TestLostCreationIsKnown: a cluster that was found after the answer to its creation was lost has the same record as any other. A
// template that asks for other workers is noticed.
func TestLostCreationIsKnown(t *testing.T) {
	create := func(t *testing.T, lost bool) (record operation.Record) {
		synctest.Test(t, func(t *testing.T) {
			e := newEstate(t, true)
			if lost {
				e.lose(false)
			}
			key := e.add("fleet", "prod", nil)
			if o := e.passes(key)[key]; !o.IsDone() || e.asked("POST") != 1 {
				t.Fatalf("%+v, %d creations", o, e.asked("POST"))
			}
			record = e.record(key)
		})
		return record
	}
	answered, found := create(t, false), create(t, true)
	for _, record := range []*operation.Record{&answered, &found} { // drawn by the portals and the provider
		record.ClusterID, record.Name, record.UserID, record.VPCID = "", "", "", ""
	}
	if diff := cmp.Diff(answered, found); diff != "" || found.Workers.ServiceOfferingID != "small" {
		t.Error(diff)
	}
}
