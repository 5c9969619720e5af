// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

func newPortal(t *testing.T, options emulator.Options) *emulator.Portal {
	t.Helper()
	p, err := emulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// shown holds the fields of GET /snapshot that the tests read.
type shown struct {
	State struct {
		Kubernetes     bool
		Title, Problem string
		Step           page.Step
		Tally          map[string]int
		Clusters       []struct {
			Name, State string
			Nodes       []struct{ Name, State string }
		}
		Machines []page.Machine
		Jobs     []struct {
			Kind, Cluster, Status string
			Percent               int
		}
		Budgets []emulator.Budget
	}
}

// decoded returns what JSON says.
func decoded[T any](t *testing.T, data []byte) (out T) {
	t.Helper()
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return out
}

// ask sends a request to the page as a browser on this machine would, after change has modified it. It reads a stream for one second.
func ask(t *testing.T, handler http.Handler, method, path, body string, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1:8445"+path, strings.NewReader(body))
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func snapshot(t *testing.T, handler http.Handler) shown {
	t.Helper()
	time.Sleep(300 * time.Millisecond) // virtual time, after which the last reading is not shared any more
	return decoded[shown](t, ask(t, handler, "GET", "/snapshot", "", nil).Body.Bytes())
}

// portalCall sends a request to the portal itself, and returns the answer, which must have the status.
func portalCall(t *testing.T, p *emulator.Portal, token, method, path, body string, status int) map[string]any {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := p.Transport().RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status {
		t.Fatalf("%s %s: %d %s, %v", method, path, response.StatusCode, data, err)
	}
	return decoded[map[string]any](t, data)
}

// scale scales the first cluster.
func scale(t *testing.T, p *emulator.Portal, token string, size int) {
	t.Helper()
	portalCall(t, p, token, "POST", "/kubernetes-clusters/"+p.Clusters()[0].ID+"/scale", fmt.Sprintf(`{"size": %d}`, size), http.StatusAccepted)
}

// createCluster logs in and creates a cluster with two workers.
func createCluster(t *testing.T, p *emulator.Portal) (token string) {
	t.Helper()
	email, password := p.Credentials()
	token, _ = portalCall(t, p, "", "POST", "/login", fmt.Sprintf(`{"email": %q, "password": %q}`, email, password), http.StatusOK)["token"].(string)
	vpc := portalCall(t, p, token, "GET", "/vpcs?name=default", "", http.StatusOK)["vpcs"].([]any)[0].(map[string]any)["id"]
	portalCall(t, p, token, "POST", "/kubernetes-clusters", fmt.Sprintf(`{"name": "demo", "description": "a test", "zoneId": "zone-1",
		"kubernetesVersionId": %q, "vpcId": %q, "serviceOfferingId": "offering-1", "size": 2, "controlNodes": 1, "sshKeyPair": "key"}`,
		p.Versions()[0].ID, vpc), http.StatusAccepted)
	return token
}

// TestSnapshot checks the snapshots of a cluster from its creation to a scale-down. No snapshot contains a credential.
func TestSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPortal(t, emulator.Options{})
		handler := page.Handler(page.Options{Portal: p})
		token := createCluster(t, p)
		time.Sleep(5 * time.Second)
		early := snapshot(t, handler).State
		if len(early.Clusters) != 1 || early.Clusters[0].State != "Creating" || len(early.Clusters[0].Nodes) != 3 || early.Clusters[0].Nodes[0].State != "joining" {
			t.Errorf("while the cluster is being created: %+v", early.Clusters)
		}
		if len(early.Jobs) != 1 || early.Jobs[0].Cluster != "demo" || early.Jobs[0].Percent < 50 || early.Jobs[0].Percent > 65 {
			t.Errorf("5.3 s of a job of 9 s: %+v", early.Jobs)
		}
		time.Sleep(10 * time.Second)
		up := snapshot(t, handler).State
		if up.Clusters[0].State != "Running" || up.Clusters[0].Nodes[2].State != "up" || up.Jobs[0].Percent != 100 {
			t.Errorf("after the cluster was created: %+v", up)
		}
		id := p.Clusters()[0].ID
		scale(t, p, token, 1)
		before := p.Budgets()
		time.Sleep(3 * time.Second)
		down := snapshot(t, handler).State
		if last := down.Clusters[0].Nodes[len(down.Clusters[0].Nodes)-1]; last.State != "leaving" {
			t.Errorf("while a worker is being removed: %+v", down.Clusters[0].Nodes)
		}
		if before[0].Remaining >= down.Budgets[0].Remaining || down.Budgets[0].Remaining != 50 || before[0].Remaining < 45 {
			t.Errorf("the budget was %+v, then %+v", before, down.Budgets)
		}
		time.Sleep(10 * time.Second)
		if left := snapshot(t, handler).State.Clusters[0].Nodes; len(left) != 2 {
			t.Errorf("after the worker was removed: %+v", left)
		}
		portalCall(t, p, token, "GET", "/kubernetes-clusters/"+id+"/config", "", http.StatusOK)
		time.Sleep(time.Second)
		served := ask(t, handler, "GET", "/snapshot", "", nil).Body.String()
		_, password := p.Credentials()
		for what, secret := range map[string]string{"password": password, "token": token, "kubeconfig": "certificate-authority"} {
			if strings.Contains(served, secret) || !strings.Contains(served, `"path":"/login"`) {
				t.Errorf("the page contains a %s, or no log: %s", what, served)
			}
		}
	})
}

// TestMachines checks that the page shows the Machines of the management cluster beside the portal's nodes, and only the nodes if there is
// no management cluster.
func TestMachines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPortal(t, emulator.Options{})
		createCluster(t, p)
		time.Sleep(time.Minute)
		id, worker := p.Clusters()[0].ID, p.Clusters()[0].Nodes[1].Name
		var problem error
		handler := page.Handler(page.Options{Portal: p, Kubernetes: func(context.Context) (page.Kubernetes, error) {
			return page.Kubernetes{
				Machines: []page.Machine{{Name: "a", ClusterID: id, Node: worker, State: page.MachineDraining}},
				Nodes:    []page.Node{{ClusterID: id, Name: worker, State: page.NodeDraining}},
			}, problem
		}})
		state := snapshot(t, handler).State
		if len(state.Machines) != 1 || state.Machines[0].Node != worker || state.Clusters[0].Nodes[1].State != "draining" || state.Clusters[0].Nodes[2].State != "up" {
			t.Errorf("%+v", state)
		}
		problem = errors.New("no route")
		if state := snapshot(t, handler).State; !strings.Contains(state.Problem, "no route") || len(state.Clusters) != 1 {
			t.Errorf("a management cluster that does not answer hides the portal: %+v", state)
		}
		if state := snapshot(t, page.Handler(page.Options{Portal: p})).State; state.Kubernetes || len(state.Clusters) != 1 {
			t.Errorf("%+v", state)
		}
	})
}

// TestChanges checks that requests of the page set and remove faults and change the removal order, and that a read-only page refuses them.
func TestChanges(t *testing.T) {
	click := func(r *http.Request) { r.Header.Set("X-Portal-Page", "1") }
	steps := []struct{ method, path, body string }{
		{"POST", "/faults", `{"id":"one","path":"/vpcs","status":503}`},
		{"PUT", "/victim-order", `{"victimOrder":"random"}`},
		{"DELETE", "/faults/one", ""},
		{"DELETE", "/faults", ""},
	}
	p := newPortal(t, emulator.Options{})
	handler := page.Handler(page.Options{Portal: p})
	if w := ask(t, handler, "POST", "/clusters/none/repair", "", click); w.Code != 400 || !strings.Contains(w.Body.String(), "no such cluster") {
		t.Errorf("repair: %d %s", w.Code, w.Body)
	}
	for i, step := range steps {
		if w := ask(t, handler, step.method, step.path, step.body, click); w.Code != 200 {
			t.Errorf("%s %s: %d %s", step.method, step.path, w.Code, w.Body)
		}
		if i == 0 && len(p.Faults()) != 1 {
			t.Error("the fault is not armed")
		}
	}
	if len(p.Faults()) != 0 || p.VictimOrder() != emulator.VictimsRandom {
		t.Errorf("%+v, order %s", p.Faults(), p.VictimOrder())
	}
	readOnly := page.Handler(page.Options{Portal: p, ReadOnly: true})
	for _, step := range steps {
		if w := ask(t, readOnly, step.method, step.path, step.body, click); w.Code != 403 || !strings.Contains(w.Body.String(), "read-only") {
			t.Errorf("read-only, %s %s: %d %s", step.method, step.path, w.Code, w.Body)
		}
	}
	if w := ask(t, handler, "GET", "/mailbox/admin@portal.example", "", click); w.Code != 404 {
		t.Errorf("the page serves mails: %d", w.Code)
	}
}

// TestStrangers checks that requests from other hosts, from other origins and of plain forms are refused.
func TestStrangers(t *testing.T) {
	p := newPortal(t, emulator.Options{})
	handler := page.Handler(page.Options{Portal: p})
	header := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Set(pairs[i], pairs[i+1])
			}
		}
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	const click = "X-Portal-Page"
	for _, test := range []struct {
		what, method, path string
		change             func(*http.Request)
		want               int
	}{
		{"a name that resolves to loopback", "GET", "/snapshot", host("portal.example:8445"), 403},
		{"a name that begins like loopback", "GET", "/", host("127.0.0.1.portal.example"), 403},
		{"localhost", "GET", "/snapshot", host("localhost:8445"), 200},
		{"IPv6 loopback", "GET", "/snapshot", host("[::1]:8445"), 200},
		{"a browser that names the origin only", "GET", "/snapshot", header("Origin", "http://portal.example"), 403},
		{"a form of another page", "POST", "/faults", header("Origin", "http://portal.example"), 403},
		{"a script of another page", "POST", "/faults", header("Origin", "http://portal.example", click, "1"), 403},
		{"a page on another port", "POST", "/faults", header("Origin", "http://127.0.0.1:3000", click, "1"), 403},
		{"a sandboxed frame", "POST", "/faults", header("Origin", "null", click, "1"), 403},
		{"a browser that names the site only", "GET", "/events", header("Sec-Fetch-Site", "cross-site"), 403},
		{"another port of this machine", "GET", "/snapshot", header("Sec-Fetch-Site", "same-site"), 403},
		{"a link to the page", "GET", "/", header("Sec-Fetch-Site", "cross-site"), 200},
		{"a change without the header", "POST", "/faults", nil, 403},
		{"a change by this page", "POST", "/faults", header("Origin", "http://127.0.0.1:8445", "Sec-Fetch-Site", "same-origin", click, "1"), 200},
	} {
		t.Run(test.what, func(t *testing.T) {
			w := ask(t, handler, test.method, test.path, `{"path":"/vpcs","status":503}`, test.change)
			if w.Code != test.want {
				t.Errorf("%s %s: %d %s", test.method, test.path, w.Code, w.Body)
			}
			if policy := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
				t.Errorf("policy %q", policy)
			}
		})
	}
	if n := len(p.Faults()); n != 1 {
		t.Errorf("%d faults are armed, want the one of this page", n)
	}
}

// TestPresets checks that every fault on the page is valid for the emulator and has a label.
func TestPresets(t *testing.T) {
	data, err := os.ReadFile("static/faults.json")
	if err != nil {
		t.Fatal(err)
	}
	var presets []struct {
		Label string
		Fault json.RawMessage
	}
	if err := json.Unmarshal(data, &presets); err != nil || len(presets) == 0 {
		t.Fatalf("%v, %d presets", err, len(presets))
	}
	p := newPortal(t, emulator.Options{})
	for _, preset := range presets {
		faults, err := emulator.ParseFaults(preset.Fault)
		if err != nil || preset.Label == "" {
			t.Fatalf("%q: %v", preset.Label, err)
		}
		if err := p.Inject(faults[0]); err != nil {
			t.Errorf("%q: %v", preset.Label, err)
		}
	}
}

// TestFilesHaveNoCode checks that the files of the page make no HTML of what the portal says, and take nothing from elsewhere.
func TestFilesHaveNoCode(t *testing.T) {
	files, err := filepath.Glob("static/*")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, inline := range []string{" onclick=", " onchange=", " style=", "<style", "innerHTML", "https://"} {
			if bytes.Contains(data, []byte(inline)) {
				t.Errorf("%s has %q", file, inline)
			}
		}
	}
}

// TestListen checks that the page listens only on loopback, follows what happens while no page is open, and ends its streams with Close.
func TestListen(t *testing.T) {
	p := newPortal(t, emulator.Options{})
	if _, err := page.Listen(t.Context(), "0.0.0.0:0", page.Options{Portal: p}); err == nil {
		t.Error("the page is open to the network")
	}
	server, err := page.Listen(t.Context(), "127.0.0.1:0", page.Options{Portal: p})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"": "text/html", "app.js": "text/javascript", "style.css": "text/css", "faults.json": "application/json"} {
		response, body := get(t, server.URL+path)
		if kind := response.Header.Get("Content-Type"); response.StatusCode != 200 || !strings.HasPrefix(kind, want) || body == "" {
			t.Errorf("%q: %d %s", path, response.StatusCode, kind)
		}
	}
	if err := p.Inject(emulator.Fault{ID: "early", Status: http.StatusServiceUnavailable}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1500 * time.Millisecond) // a reading each second
	p.ClearFaults()
	time.Sleep(1500 * time.Millisecond)
	ended := make(chan string)
	go func() {
		_, body := get(t, server.URL+"events")
		ended <- body
	}()
	time.Sleep(500 * time.Millisecond)
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	body := <-ended
	for _, part := range []string{"event: state\ndata: {", `"kind":"fault","id":"early"`, `"kind":"fault-end","id":"early"`} {
		if !strings.Contains(body, part) {
			t.Errorf("the stream has no %s:\n%s", part, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func get(t *testing.T, url string) (*http.Response, string) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return nil, ""
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return &http.Response{Header: http.Header{}}, fmt.Sprint(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, _ := io.ReadAll(response.Body) // Close may cut a stream
	return response, string(body)
}
