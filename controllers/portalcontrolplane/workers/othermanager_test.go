// SPDX-License-Identifier: Apache-2.0

package workers

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestOtherManager checks which annotations of a Node are a sign of another management cluster.
func TestOtherManager(t *testing.T) {
	annotated := func(namespace, cluster, machine string) map[string]string {
		return map[string]string{
			clusterv1.ClusterNamespaceAnnotation: namespace, clusterv1.ClusterNameAnnotation: cluster, clusterv1.MachineAnnotation: machine,
		}
	}
	now := metav1.Now()
	for title, test := range map[string]struct {
		annotations map[string]string
		nodeRef     string
		deleted     *metav1.Time
		sign        bool
	}{
		"core has annotated it":              {annotated("default", "prod", "m-1"), "w-1", nil, false},
		"core has not yet":                   {nil, "w-1", nil, false},
		"of another Machine here, in a swap": {annotated("default", "prod", "m-2"), "w-1", nil, false},
		"of a Machine that is not here":      {annotated("default", "prod", "m-9"), "w-1", nil, true},
		"of another Cluster":                 {annotated("default", "old", "m-1"), "w-1", nil, true},
		"of another namespace":               {annotated("fleet", "prod", "m-1"), "w-1", nil, true},
		"left by a Machine that is gone":     {annotated("default", "prod", "m-9"), "", nil, false},
		"of a Machine that goes":             {annotated("default", "prod", "m-9"), "w-1", &now, false},
	} {
		t.Run(title, func(t *testing.T) {
			s := passed(func(s *scene) {
				s.Cluster.Namespace, s.Cluster.Name = "default", "prod"
				m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m-1", DeletionTimestamp: test.deleted}}
				m.Status.NodeRef.Name = test.nodeRef
				s.members.Machines = []clusterv1.Machine{m, {ObjectMeta: metav1.ObjectMeta{Name: "m-2"}}}
				s.nodes.Workers = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "w-1", Annotations: test.annotations}}}
			})
			if got := otherManagerOf(s.Cluster, s.members.Machines, s.nodes.Workers); (got != "") != test.sign {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestOtherManagerIsReportedOnce: the sign must last for two minutes, even if the own core overwrites it in between, and emits
// one event.
func TestOtherManagerIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := events.NewFakeRecorder(10)
		k := Keeper{Memory: &Memory{}}
		s := passed(func(s *scene) {
			m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m-1"}}
			m.Status.NodeRef.Name = "w-1"
			s.members.Machines, s.nodes.Workers = []clusterv1.Machine{m}, []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "w-1"}}}
		})
		s.Recorder = recorder
		for i := range 20 {
			s.nodes.Workers[0].Annotations = map[string]string{clusterv1.MachineAnnotation: []string{"m-1", "m-9"}[i%2]}
			k.noticeOtherManager(&s.Pass, &s.decision)
			if early := i < 12; early && len(recorder.Events) > 0 {
				t.Fatalf("reported after %d s", 10*i)
			}
			time.Sleep(10 * time.Second)
		}
		if len(recorder.Events) != 1 {
			t.Fatalf("%d events", len(recorder.Events))
		}
		if got := <-recorder.Events; !strings.Contains(got, infrav1.EventAnotherManager) || !strings.Contains(got, "Machine m-9") {
			t.Errorf("%q", got)
		}
	})
}
