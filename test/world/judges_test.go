// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestJudges breaks each rule in one life, past the provider. The judges must notice each of them.
func TestJudges(t *testing.T) {
	seeded(t, Options{Seed: 1, Portal: QuickPortal()}, func(w *World) {
		l := w.begin(plan{Portal: QuickPortal()})
		w.CreateCluster(2)
		w.Until("created", Patience, w.Runs(2, oldVersion))
		w.Scale(3)
		w.Until("scaled", Patience, w.Runs(3, oldVersion))
		w.RollApp()
		if wrong := l.judge.wrongs; len(wrong) > 0 {
			t.Fatalf("nothing was broken yet: %v", wrong)
		}
		for rule, broken := range l.vandalism() {
			broken()
			w.Let(2 * time.Minute)
			if !slices.ContainsFunc(l.judge.wrongs, func(wrong string) bool { return strings.HasPrefix(wrong, rule+": ") }) {
				t.Errorf("%s: no judge has noticed, only %v", rule, l.judge.wrongs)
			}
		}
	})
}

// vandalism breaks rule after rule.
func (l *life) vandalism() func(yield func(string, func()) bool) {
	ctx, id := context.Background(), l.Portal.Clusters()[0].ID
	vandal, err := cloud.New(cloud.Config{BaseURL: portalURL, Email: email, Password: password, Transport: l.Portal.Transport()})
	l.must(err)
	did := func(_ cloud.Job, err error) { l.must(err) }
	rules := []struct {
		rule   string
		broken func()
	}{
		{"killed", func() { did(vandal.ScaleCluster(ctx, id, 2)) }},
		{"silent", func() { l.events = nil; l.judge.warned() }},
		{"cordons", func() {
			node := l.nodes()[1]
			node.Spec.Unschedulable = true
			l.must(l.workloads.get(id).client.Update(ctx, node))
		}},
		{"unasked", func() { l.judge.made = time.Now(); l.judge.lookAtScale() }},
		{"sizes", func() { did(vandal.ScaleCluster(ctx, id, 5)) }},
		{"nodes", func() { l.must(l.workloads.get(id).client.Delete(ctx, l.nodes()[1])) }},
		{"drains", func() {
			node := l.nodes()[1]
			node.Spec.Unschedulable = false
			metav1.SetMetaDataAnnotation(&node.ObjectMeta, infrav1.DrainedAnnotation, "now")
			l.must(l.workloads.get(id).client.Update(ctx, node))
		}},
		{"conditions", func() {
			l.judge.explained("a thing", []metav1.Condition{{Type: "Available", Status: "False", Reason: "Some"}})
		}},
		{"blame", func() {
			c := metav1.Condition{Type: "Available", Status: "False", Reason: infrav1.UnauthorizedReason, Message: "the portal refuses it"}
			l.judge.explained("a thing", []metav1.Condition{c})
		}},
		{"secrets", func() {
			l.judge.explained("a thing", []metav1.Condition{{Type: "Available", Status: "False", Reason: "Some", Message: "with " + password}})
		}},
		{"budget", func() {
			l.judge.lookAtEntry(emulator.LogEntry{Method: http.MethodGet, Status: http.StatusTooManyRequests})
		}},
		{"specification", func() { l.judge.lookAtEntry(emulator.LogEntry{Method: http.MethodPut, Violation: "no such method"}) }},
		{"twice", func() {
			c := l.Portal.Clusters()[0]
			did(vandal.CreateCluster(ctx, cloud.CreateClusterRequest{
				Name: "second", Description: "a second one", ZoneID: c.ZoneID, KubernetesVersionID: c.VersionID, ServiceOfferingID: c.ServiceOfferingID,
				Size: 1, ControlNodes: 1, VPCID: c.VPCID, SSHKeyPair: c.SSHKeyPair,
			}))
		}},
		{"rest", func() {
			l.looks = append(l.looks, func() { l.note("the provider: PATCH something") })
			l.rest()
		}},
		{"deleted", func() { did(vandal.DeleteCluster(ctx, id)) }},
	}
	return func(yield func(string, func()) bool) {
		for _, r := range rules {
			if !yield(r.rule, r.broken) {
				return
			}
		}
	}
}
