// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

// moment holds the fields of an event "history" that the tests read.
type moment struct {
	Time                    time.Time
	Cluster, Kind, ID, Text string
	Workers                 *struct {
		Wanted      *int
		Size, Ready int
	}
}

// moments returns the moments that a stream has sent.
func (b *browser) moments(t *testing.T) (all []moment) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, part := range strings.Split(b.body.String(), "event: history\ndata: ")[1:] {
		data, _, _ := strings.Cut(part, "\n")
		all = append(all, decoded[[]moment](t, []byte(data))...)
	}
	return all
}

// told returns moments in words, with the second in which they were.
func told(moments []moment, begin time.Time) (out []string) {
	for _, m := range moments {
		text := fmt.Sprintf("%2.0f s %s %s", m.Time.Sub(begin).Truncate(time.Second).Seconds(), m.Kind, m.Text)
		if m.Workers != nil {
			wanted := "?"
			if m.Workers.Wanted != nil {
				wanted = fmt.Sprint(*m.Workers.Wanted)
			}
			text += fmt.Sprintf("wanted %s size %d ready %d", wanted, m.Workers.Size, m.Workers.Ready)
		}
		out = append(out, strings.TrimRight(text, " "))
	}
	return out
}

// TestHistory checks that the history has each moment of a scale-down, in the cluster that it is of: request, job, numbers of workers, drain,
// replaced Machine, and a fault until it is spent.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPortal(t, emulator.Options{})
		token := createCluster(t, p)
		time.Sleep(time.Minute)
		c := p.Clusters()[0]
		machine := func(name string, state page.MachineState, node, from string) page.Machine {
			return page.Machine{Name: name, ClusterID: c.ID, Node: node, State: state, From: from}
		}
		node, kubernetes := c.Nodes[1].Name, &atomic.Pointer[page.Kubernetes]{}
		show := func(wanted int, machines ...page.Machine) {
			kubernetes.Store(&page.Kubernetes{
				Clusters: []page.Cluster{{Name: "demo", ClusterID: c.ID, Wanted: wanted}}, Machines: machines,
				Nodes: []page.Node{{ClusterID: c.ID, Name: node, Ready: true}, {ClusterID: c.ID, Name: c.Nodes[2].Name}},
			})
		}
		show(2, machine("a", page.MachineRunning, node, ""))
		b := open(t, page.Handler(page.Options{Portal: p, Kubernetes: func(context.Context) (page.Kubernetes, error) { return *kubernetes.Load(), nil }}))
		defer b.gone()
		begin := time.Now()
		time.Sleep(2 * time.Second)
		first := len(b.moments(t))

		show(1, machine("a", page.MachineDraining, node, ""), machine("b", page.MachineTakeover, node, "a"))
		if err := p.Inject(emulator.Fault{ID: "busy", Method: http.MethodGet, Path: "/vpcs", Status: http.StatusServiceUnavailable, Count: 1, After: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		portalCall(t, p, token, "GET", "/vpcs", "", http.StatusServiceUnavailable)
		time.Sleep(time.Second)
		show(1, machine("b", page.MachineReleased, "", ""), machine("c", page.MachineWaiting, "", ""))
		time.Sleep(time.Second)
		show(1, machine("c", page.MachineRunning, node, ""))
		time.Sleep(time.Second)
		scale(t, p, token, 1)
		time.Sleep(20 * time.Second)

		moments := b.moments(t)
		for _, m := range moments {
			if fault := strings.HasPrefix(m.Kind, "fault"); (m.Cluster == c.ID) == fault {
				t.Errorf("a moment of another cluster: %+v", m)
			}
		}
		want := []string{
			" 2 s drain drain of node " + node,
			" 2 s fault fault busy",
			" 2 s replaced Machine b takes over node " + node + " from a",
			" 2 s workers wanted 1 size 2 ready 1",
			" 3 s fault-end",
			" 5 s replaced Machine c takes over node " + node + " from b",
			" 6 s job scale cluster",
			" 6 s request POST /kubernetes-clusters/" + c.ID + "/scale → 202",
			"12 s job-end succeeded",
			"12 s workers wanted 1 size 1 ready 1",
		}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(told(moments[first:], begin)))); diff != "" {
			t.Errorf("the history (-want +got):\n%s", diff)
		}
	})
}

// TestHistoryForLatePages checks that a page gets what happened before it was opened, without what is too old, and that no moment comes twice.
func TestHistoryForLatePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPortal(t, emulator.Options{})
		handler := page.Handler(page.Options{Portal: p})
		early := open(t, handler)
		createCluster(t, p)
		time.Sleep(time.Minute)
		late := open(t, handler)
		time.Sleep(time.Second)
		if a, b := early.moments(t), late.moments(t); len(a) < 4 || fmt.Sprint(told(a, time.Time{})) != fmt.Sprint(told(b, time.Time{})) {
			t.Errorf("the page that was open got %d moments, the late one %d", len(a), len(b))
		}
		late.gone()
		for range 2100 {
			if err := p.Inject(emulator.Fault{Path: "/vpcs", Status: http.StatusServiceUnavailable}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond)
			p.ClearFaults()
			time.Sleep(300 * time.Millisecond)
		}
		later := open(t, handler)
		time.Sleep(time.Second)
		all, end := early.moments(t), later.moments(t)
		if len(all) < 4200 || len(end) != 4000 || fmt.Sprint(told(all[len(all)-4000:], time.Time{})) != fmt.Sprint(told(end, time.Time{})) {
			t.Errorf("of %d moments, a page that is opened late gets %d", len(all), len(end))
		}
		early.gone()
		later.gone()
	})
}

// TestTally checks that each request is counted once under what it asked for, and refused ones a second time, and that the Pods are counted that
// the portal kills with their nodes.
func TestTally(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPortal(t, emulator.Options{Workloads: killing{map[string][]emulator.Node{}}})
		handler := page.Handler(page.Options{Portal: p, Title: "A test", Step: func() *page.Step { return &page.Step{Number: 3, Of: 7, Name: "scale"} }})
		token := createCluster(t, p) // one login, one GET, one POST
		time.Sleep(time.Minute)
		id := p.Clusters()[0].ID
		for _, size := range []int{3, 1} {
			scale(t, p, token, size)
			time.Sleep(time.Minute)
		}
		portalCall(t, p, token, "POST", "/kubernetes-clusters/"+id+"/upgrade", fmt.Sprintf(`{"kubernetesVersionId": %q}`, p.Versions()[1].ID), http.StatusAccepted)
		time.Sleep(time.Minute)
		if err := p.Inject(emulator.Fault{Path: "/vpcs", Status: http.StatusServiceUnavailable}); err != nil {
			t.Fatal(err)
		}
		portalCall(t, p, token, "GET", "/vpcs", "", http.StatusServiceUnavailable)
		portalCall(t, p, token, "DELETE", "/kubernetes-clusters/"+id, "", http.StatusAccepted)
		time.Sleep(time.Minute)
		state := snapshot(t, handler).State
		want := map[string]int{"creates": 1, "scales": 2, "upgrades": 1, "deletes": 1, "others": 0, "reads": 2, "refused": 1, "podsLost": 2}
		if fmt.Sprint(state.Tally) != fmt.Sprint(want) {
			t.Errorf("the tally is %v, want %v", state.Tally, want)
		}
		if state.Title != "A test" || state.Step.Number != 3 {
			t.Errorf("%+v", state)
		}
	})
}

// killing runs workload clusters whose workers each have one Pod. The portal kills it when it removes the worker.
type killing struct{ nodes map[string][]emulator.Node }

func (k killing) Apply(_ context.Context, w emulator.Workload) (removals []emulator.Removal, _ error) {
	for _, n := range k.nodes[w.ID] {
		if !slices.ContainsFunc(w.Nodes, func(left emulator.Node) bool { return left.ID == n.ID }) {
			removals = append(removals, emulator.Removal{Machine: n.ID, Pods: []string{"default/" + n.Name}})
		}
	}
	k.nodes[w.ID] = w.Nodes
	return removals, nil
}

func (k killing) Kubeconfig(context.Context, string) ([]byte, error) { return nil, nil }
func (k killing) Delete(context.Context, string) error               { return nil }

// TestStuckJob checks that a fault which holds a job lasts until it is removed, although it affects no other call.
func TestStuckJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPortal(t, emulator.Options{})
		b := open(t, page.Handler(page.Options{Portal: p}))
		defer b.gone()
		token := createCluster(t, p)
		time.Sleep(time.Minute)
		if err := p.Inject(emulator.Fault{ID: "stuck", Path: "/kubernetes-clusters/*/scale", Job: emulator.JobStuck, Count: 1}); err != nil {
			t.Fatal(err)
		}
		scale(t, p, token, 1)
		time.Sleep(time.Minute)
		if hits := p.Faults()[0].Hits; hits != 1 || b.count(`"kind":"fault-end"`) != 0 {
			t.Errorf("the fault affected %d calls and ended %d times while the job is stuck", hits, b.count(`"kind":"fault-end"`))
		}
		p.ClearFaults()
		time.Sleep(time.Minute)
		if b.count(`"kind":"fault-end"`) != 1 || b.count(`"kind":"job-end"`) != 2 {
			t.Error("the fault and the job do not end when the fault is removed")
		}
	})
}
