// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/test/kubeconfigs"
)

// volume creates a PersistentVolume of a driver.
func (f *fixture) volume(name, driver, id string) {
	f.Helper()
	pv := &corev1.PersistentVolume{}
	pv.Name = name
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: id}
	f.must(f.nodes.Create(f.Context(), pv))
}

// removeBy takes the deletion one step further, and returns the events about volumes.
func (f *fixture) removeBy(way access.Way) (volumes []string) {
	f.Helper()
	s := f.scope()
	s.way = way
	_, err := f.manager.reconcileDelete(f.Context(), s)
	f.must(err)
	return slices.DeleteFunc(f.events(), func(e string) bool { return !strings.Contains(e, " Volumes") })
}

// remove is removeBy of a connected cluster.
func (f *fixture) remove() []string {
	f.Helper()
	return f.removeBy(access.Way{Connection: &f.workloads.connection, Health: f.workloads.access})
}

// apart fails the test if the recorder would count two events as one.
type apart struct {
	events.EventRecorder
	seen map[string]bool
	*testing.T
}

func (a *apart) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	key := fmt.Sprintf("%T %v %s %s %s", regarding, related, kind, reason, action)
	if strings.HasPrefix(reason, "Volumes") && a.seen[key] {
		a.Errorf("the second event is lost: %s", key)
	}
	a.seen[key] = true
	a.EventRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
}

// TestVolumesOfADeletedCluster checks which volumes the events name, on the Cluster and on its namespace, after the portal has accepted the
// deletion, and only then. TestDeleteEverything of test/world has volumes of another driver.
func TestVolumesOfADeletedCluster(t *testing.T) {
	type row struct {
		prepare func(*fixture)
		want    []string // the beginning and a part of each event
	}
	cases(t, map[string]row{
		"none": {func(*fixture) {}, nil},
		"many": {func(f *fixture) {
			f.volume("share", "nfs.csi.example", "share")
			for i := range 120 {
				f.volume(fmt.Sprint(i), "acme.csi.driver", fmt.Sprintf("volume-%03d", i))
			}
		}, []string{
			"Normal VolumesRemain 72 of 120 volumes of portal cluster * volume-070 volume-071", "Normal VolumesRemain 48 of 120 volumes of portal cluster * volume-119"}},
		"an id that is no id": {func(f *fixture) { f.volume("a", "acme.csi.driver", "volume-1; rm -rf /") },
			[]string{"Warning VolumesMayRemain Portal cluster * has 1 volume with ids that are not listed"}},
		"the API server does not answer": {func(f *fixture) {
			f.volume("a", "acme.csi.driver", "volume-1")
			f.workloads.access = workload.Unreachable
		}, []string{"Warning VolumesMayRemain Volumes of portal cluster * may remain"}},
		"its answer hangs": {func(f *fixture) {
			f.workloads.client = interceptor.NewClient(f.nodes.WithWatch, interceptor.Funcs{
				List: func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
					<-ctx.Done()
					return ctx.Err()
				},
			})
		}, []string{"Warning VolumesMayRemain Volumes of portal cluster * may remain"}},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 3, emulator.Durations{})
		f.manager.Recorder = &apart{EventRecorder: f.recorder, seen: map[string]bool{}, T: t}
		test.prepare(f)
		f.leave(person)
		f.strike(emulator.Fault{ID: "busy", Method: "DELETE", Path: routeCluster, Code: emulator.CodeResourceBusy})
		if early := f.remove(); f.deletions() != 1 || len(early) > 0 {
			t.Errorf("%d requests, and before the portal accepts one: %q", f.deletions(), early)
		}
		f.portal.RemoveFault("busy")
		time.Sleep(time.Minute)
		start := time.Now()
		got := f.remove()
		if took := time.Since(start); f.deletions() != 2 || took > access.ConnectTime {
			t.Errorf("%d requests, after %s", f.deletions(), took)
		}
		if len(got) != 2*len(test.want) {
			t.Fatalf("events %s", strings.Join(got, "\n"))
		}
		for i, event := range got {
			begin, part, _ := strings.Cut(test.want[i/2], "*")
			if !strings.HasPrefix(event, begin) || !strings.Contains(event, part) || len(event) > 1024 {
				t.Errorf("event %s\nwant %s", event, test.want[i/2])
			}
		}
		if later := f.remove(); len(later) > 0 {
			t.Errorf("once more: %q", later)
		}
	})
}

// TestVolumesOfALostDeletion: the portal may delete the cluster although its answer was lost, so the volumes are named.
func TestVolumesOfALostDeletion(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.volume("a", "acme.csi.driver", "volume-1")
		f.leave(person)
		f.strike(emulator.Fault{Method: "DELETE", Path: routeCluster, Cut: true, Count: 1})
		if got := f.remove(); len(got) != 2 || !strings.Contains(got[0], infrav1.EventVolumesRemain) {
			f.Errorf("events %q", got)
		}
	})
}

// TestVolumesInADeletedNamespace deletes the namespace of a Cluster. Its kubeconfig Secret goes first, and cannot be written again. The events
// name the volumes that remain, because the connection is still known.
func TestVolumesInADeletedNamespace(t *testing.T) {
	now := newAPIServer(workload.Working).kubeconfig("token: " + kubeconfigs.Canary)
	withFixture(t, &now, func(f *fixture) {
		f.connect()
		f.volume("a", "acme.csi.driver", "volume-1")
		f.must(f.store.Delete(t.Context(), f.secret()))
		f.quota()
		f.leave(person)
		if got := f.removeBy(access.Way{}); len(got) != 2 || !strings.HasSuffix(got[0], "portalctl volumes delete volume-1") {
			t.Errorf("events: %q", got)
		}
	})
}
