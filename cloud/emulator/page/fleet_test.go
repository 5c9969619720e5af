// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

// TestFleetWithoutPortal checks what a page shows that has a management cluster only: its clusters and nodes, what its events tell, each once,
// its jobs, and what was known last while it does not answer. Nothing can be changed there.
func TestFleetWithoutPortal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		const id = "fleet/shop"
		told := func(kind page.MomentKind, second int, job, text string) page.Moment {
			return page.Moment{Time: begin.Add(time.Duration(second) * time.Second), Cluster: id, Kind: kind, ID: job, Text: text}
		}
		known := page.Kubernetes{
			Clusters: []page.Cluster{
				{Name: "shop", ClusterID: id, Wanted: 2, Known: &page.Known{State: "ScalingUp", Version: "v1.36.3", Size: 2, Ready: 1}},
				{Name: "not a portal's", ClusterID: "fleet/other"},
			},
			Machines: []page.Machine{{Name: "shop-a", ClusterID: id, Node: "n1", State: page.MachineRunning}},
			Nodes:    []page.Node{{ClusterID: id, Name: "n1", Version: "v1.36.3", State: page.NodeUp}},
			Moments: []page.Moment{
				told(page.JobBegan, -90, "1", "create"), told(page.JobEnded, -60, "1", "succeeded"),
				told(page.RequestMade, -5, "", "The portal accepted the scale"), told(page.JobBegan, -5, "2", "scale"),
			},
		}
		var problem error
		var mu sync.Mutex // of known and problem
		handler := page.Handler(page.Options{Title: "A fleet", Every: time.Second, ReadOnly: true, Kubernetes: func(context.Context) (page.Kubernetes, error) {
			mu.Lock()
			defer mu.Unlock()
			return known, problem
		}})
		b := open(t, handler)
		defer b.gone()
		time.Sleep(2100 * time.Millisecond) // between two readings
		mu.Lock()
		known.Moments = append(slices.Clone(known.Moments[2:]), told(page.JobEnded, 2, "2", "failed"), told(page.Warned, 2, "", "The portal removed n2 without a drain"))
		known.Clusters = slices.Clone(known.Clusters)
		known.Clusters[0].Known = &page.Known{State: "Running", Version: "v1.36.3", Size: 2, Ready: 2}
		mu.Unlock()
		time.Sleep(4 * time.Second)

		want := []string{
			"-90 job create", "-60 job-end succeeded", "-5 request The portal accepted the scale", "-5 job scale", "0 workers 2/2/1",
			"2 job-end failed", "2 warning The portal removed n2 without a drain", "3 workers 2/2/2",
		}
		var got []string
		for _, m := range b.moments(t) {
			text := m.Text
			if m.Workers != nil {
				text = fmt.Sprintf("%d/%d/%d", *m.Workers.Wanted, m.Workers.Size, m.Workers.Ready)
			}
			got = append(got, fmt.Sprintf("%d %s %s", int(m.Time.Sub(begin).Seconds()), m.Kind, text))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the history (-want +got):\n%s", diff)
		}

		mu.Lock()
		problem = errors.New("no route")
		mu.Unlock()
		time.Sleep(time.Second)
		state := snapshot(t, handler).State
		if state.Title != "A fleet" || !strings.Contains(state.Problem, "no route") || len(state.Machines) != 1 {
			t.Errorf("%+v", state)
		}
		if len(state.Clusters) != 1 || state.Clusters[0].Name != "shop" || state.Clusters[0].State != "Running" || len(state.Clusters[0].Nodes) != 1 {
			t.Errorf("the clusters are %+v", state.Clusters)
		}
		if got := fmt.Sprint(state.Jobs[0].Kind, state.Jobs[0].Status, state.Jobs[0].Cluster, state.Jobs[0].Percent); len(state.Jobs) != 1 || got != "scalefailedshop0" {
			t.Errorf("the jobs are %+v", state.Jobs)
		}
		for _, change := range []string{"POST /faults", "POST /actions", "PUT /victim-order", "POST /clusters/any/repair"} {
			method, path, _ := strings.Cut(change, " ")
			w := ask(t, handler, method, path, "{}", func(r *http.Request) { r.Header.Set("X-Portal-Page", "1") })
			if w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s: %d", change, w.Code)
			}
		}
	})
}
