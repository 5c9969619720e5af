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
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/access"
	"github.com/capportal/cluster-api-provider-portal/controllers/identity"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/workload"
)

// volume creates a PersistentVolume of a driver.
func (f *fixture) volume(name, driver, id string) {
	f.Helper()
	pv := &corev1.PersistentVolume{}
	pv.Name = name
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: id}
	if driver == "" {
		pv.Spec.CSI = nil
	}
	f.must(f.nodes.Create(f.Context(), pv))
}

// remove takes the deletion of the connected cluster one step further, and returns the events about volumes.
func (f *fixture) remove() (volumes []string) {
	f.Helper()
	return f.removeBy(access.Way{Workload: &f.workloads.connection, Access: f.workloads.access})
}

func (f *fixture) removeBy(way access.Way) (volumes []string) {
	f.Helper()
	cluster := &clusterv1.Cluster{}
	cluster.Namespace, cluster.Name = prod.Namespace, prod.Name
	s := &scope{Pass: pass.Pass{ControlPlane: f.controlPlane(), Cluster: cluster}, way: way,
		outcomes: map[string]outcome.Outcome{}}
	s.Identity = identity.Identity{Portal: f.cloud, Version: "1"}
	s.State, s.Tools = stateOf(s.ControlPlane), f.manager.tools(s)
	if _, err := f.manager.reconcileDelete(f.Context(), s); err != nil {
		f.Fatal(err)
	}
	return slices.DeleteFunc(f.events(), func(e string) bool { return !strings.Contains(e, " Volumes") })
}

// apart fails the test if the recorder would count two events as one.
type apart struct {
	events.EventRecorder
	seen map[string]bool
	*testing.T
}

func (a *apart) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	key := fmt.Sprintf("%T %v %s %s %s", regarding, related, kind, reason, action)
	if (strings.HasPrefix(reason, "Volumes") || strings.Contains(note, "cordoned")) && a.seen[key] {
		a.Errorf("the second event is lost: %s", key)
	}
	a.seen[key] = true
	a.EventRecorder.Eventf(regarding, related, kind, reason, action, note, args...)
}

// TestVolumesOfADeletedCluster checks which volumes the events name, after the portal has accepted the deletion, and only then.
func TestVolumesOfADeletedCluster(t *testing.T) {
	hangs := func(ctx context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
		<-ctx.Done()
		return ctx.Err()
	}
	many := func(f *fixture) {
		for i := range 120 {
			f.volume(fmt.Sprint(i), "acme.csi.driver", fmt.Sprintf("volume-%03d", i))
		}
	}
	type row struct {
		prepare func(*fixture)
		want    []string // each twice: on the Cluster and on the namespace
	}
	cases(t, map[string]row{
		"none": {func(*fixture) {}, nil},
		"of the portal's driver": {func(f *fixture) {
			f.volume("a", "acme.csi.driver", "volume-2")
			f.volume("b", "acme.csi.driver", "volume-1")
			f.volume("c", "nfs.csi.example", "share")
			f.volume("d", "", "")
		}, []string{"Normal VolumesRemain 2 of 2 volumes of portal cluster * portalctl volumes delete volume-1 volume-2"}},
		"many": {many, []string{
			"Normal VolumesRemain 72 of 120 volumes of portal cluster * volume-070 volume-071", "Normal VolumesRemain 48 of 120 volumes of portal cluster * volume-119"}},
		"an id that is no id": {func(f *fixture) { f.volume("a", "acme.csi.driver", "volume-1; rm -rf /") },
			[]string{"Warning VolumesMayRemain Portal cluster * has 1 volume with ids that are not listed"}},
		"the API server does not answer": {func(f *fixture) {
			f.volume("a", "acme.csi.driver", "volume-1")
			f.workloads.access = workload.Unreachable
		}, []string{"Warning VolumesMayRemain Volumes of portal cluster * may remain"}},
		"its answer hangs": {func(f *fixture) {
			wrapped, _ := f.nodes.Client.(client.WithWatch)
			f.workloads.client = interceptor.NewClient(wrapped, interceptor.Funcs{List: hangs})
		}, []string{"Warning VolumesMayRemain Volumes of portal cluster * may remain"}},
	}, func(t *testing.T, test row) {
		f := newFixture(t, 3, emulator.Durations{})
		f.manager.Recorder = &apart{EventRecorder: f.recorder, seen: map[string]bool{}, T: t}
		test.prepare(f)
		f.leave(departure{owner: "present", noted: "present"})
		f.strike(emulator.Fault{ID: "busy", Method: "DELETE", Path: routeAnyCluster, Code: emulator.CodeResourceBusy})
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
		var want []string
		for _, one := range test.want {
			want = append(want, one, one)
		}
		if !slices.EqualFunc(got, want, matches) {
			t.Errorf("events %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		for _, e := range got {
			if _, text, _ := strings.Cut(e, "Remain "); len(text) > 1000 {
				t.Errorf("an event of %d bytes", len(text))
			}
		}
		if later := f.remove(); len(later) > 0 {
			t.Errorf("once more: %q", later)
		}
	})
}

// matches reports whether the event begins and goes on as wanted.
func matches(event, want string) bool {
	begin, rest, _ := strings.Cut(want, "*")
	return strings.HasPrefix(event, begin) && strings.Contains(event, rest)
}

// TestVolumesOfALostDeletion: the portal may delete the cluster although its answer was lost, so the volumes are named.
func TestVolumesOfALostDeletion(t *testing.T) {
	live(t, 3, func(f *fixture) {
		f.volume("a", "acme.csi.driver", "volume-1")
		f.leave(departure{owner: "present", noted: "present"})
		f.strike(emulator.Fault{Method: "DELETE", Path: routeAnyCluster, Cut: true, Count: 1})
		if got := f.remove(); len(got) != 2 || !strings.Contains(got[0], infrav1.EventVolumesRemain) {
			f.Errorf("events %q", got)
		}
	})
}
