// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

// again is what to do if the recording does not fit the page.
const again = "make it again: make demo FLAGS='--record cmd/portal-player/demo.jsonl.gz'"

// readDemo reads the recording of the demonstration.
func readDemo(t *testing.T) *page.Recording {
	t.Helper()
	recording, err := page.ReadRecording(demo)
	if err != nil {
		t.Fatalf("%v\n%s", err, again)
	}
	return recording
}

// decoded returns what JSON says.
func decoded[T any](t *testing.T, data []byte) (out T) {
	t.Helper()
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	return out
}

// TestDemo checks that today's page can show every event of the recording, and that the recording is of a whole demonstration.
func TestDemo(t *testing.T) {
	if len(demo) > 300_000 {
		t.Errorf("the recording has %d bytes", len(demo))
	}
	recording := readDemo(t)
	var nodes, machines []int // how many there were
	requests, moments := map[string]int{}, map[string]int{}
	for _, event := range recording.Events {
		if event.Name == "log" {
			for _, entry := range decoded[[]emulator.LogEntry](t, event.Data) {
				if entry.IsChange() {
					requests[entry.Method+" "+entry.Route]++
				}
			}
			continue
		}
		if event.Name == "history" {
			for _, moment := range decoded[[]struct{ Kind string }](t, event.Data) {
				moments[moment.Kind]++
			}
			continue
		}
		state := decoded[struct {
			Problem  string
			Machines []any
			Clusters []struct{ Nodes []any }
		}](t, event.Data)
		if state.Problem != "" {
			t.Errorf("after %d ms the recording shows a problem: %s", event.At, state.Problem)
		}
		known := 0
		for _, cluster := range state.Clusters {
			known += len(cluster.Nodes)
		}
		nodes, machines = append(nodes, known), append(machines, len(state.Machines))
	}
	for what, counts := range map[string][]int{"nodes": nodes, "Machines": machines} {
		if counts = slices.Compact(counts); counts[0] != 0 || counts[len(counts)-1] != 0 || len(counts) < 5 {
			t.Errorf("the recording is not of a whole life: its numbers of %s are %v. %s", what, counts, again)
		}
	}
	for kind, least := range map[string]int{"workers": 5, "request": 6, "job": 6, "job-end": 6, "drain": 3, "replaced": 3} {
		if moments[kind] < least {
			t.Errorf("the timeline of the recording has %d moments %q, want at least %d. %s", moments[kind], kind, least, again)
		}
	}
	for request, want := range map[string]int{
		"POST /kubernetes-clusters": 1, "POST /kubernetes-clusters/{cluster_id}/scale": 3,
		"POST /kubernetes-clusters/{cluster_id}/upgrade": 1, "DELETE /kubernetes-clusters/{cluster_id}": 1,
	} {
		if requests[request] != want {
			t.Errorf("the recording has %d requests %s, want %d. %s", requests[request], request, want, again)
		}
	}
}

// secret matches what must not be in a recording: tokens, keys and certificates, mails, and paths of the machine that made it.
var secret = regexp.MustCompile(`eyJ|BEGIN |[Pp]assword|certificate|client-key|[\w.]+@[\w.]+|"/(?:home|root|tmp|Users)/`)

// TestDemoHasNoSecrets checks that the recording has nothing that should stay on the machine that made it.
func TestDemoHasNoSecrets(t *testing.T) {
	recording := readDemo(t)
	for _, event := range recording.Events {
		if found := secret.Find(event.Data); found != nil {
			t.Errorf("after %d ms the recording shows %q in %s", event.At, found, event.Data)
		}
	}
}

// link matches the file and the heading of a link into the documentation.
var link = regexp.MustCompile(`/blob/main/([^#"]+)#([^:"]+)`)

// TestLinksOfDemo checks that the headings to which conditions of the recording lead exist.
func TestLinksOfDemo(t *testing.T) {
	recording := readDemo(t)
	headings := map[string]bool{}
	for _, event := range recording.Events {
		for _, found := range link.FindAllSubmatch(event.Data, -1) {
			file, heading := string(found[1]), string(found[2])
			if headings[file+heading] {
				continue
			}
			headings[file+heading] = true
			text, err := os.ReadFile(filepath.Join("../..", file))
			if err != nil || !strings.Contains(strings.ToLower(string(text)), "# "+heading+"\n") {
				t.Errorf("%s has no heading %q (%v). %s", file, heading, err, again)
			}
		}
	}
	if len(headings) == 0 {
		t.Error("no condition of the recording has a link")
	}
}

// TestServes checks that the program prints the address of the player, and serves it until it is told to end.
func TestServes(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, nil, out)
		_ = out.CloseWithError(err) // ends the read below if the program says nothing
		ended <- err
	}()
	line := make([]byte, 1000)
	n, err := in.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`^A recording of make demo \(v\S+, seed \d+\) until Ctrl-C: (http://127\.0\.0\.1:\d+/)\n$`).FindStringSubmatch(string(line[:n]))
	if said == nil {
		t.Fatalf("the program said %q", line[:n])
	}
	if got := body(t, said[1]+"recording"); !bytes.Equal(got, demo) {
		t.Errorf("the program serves a recording of %d bytes, want %d", len(got), len(demo))
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if response, err := http.Get(said[1]); err == nil {
		t.Errorf("the program still serves after its end: %s", response.Status)
	}
}

// TestWrites checks that the written folder is all that a server of files needs, also for another recording.
func TestWrites(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "site", "demo")
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, demo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"--write", folder, other}, io.Discard); err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(http.FileServer(http.Dir(folder)))
	defer site.Close()
	loaded := map[string]bool{}
	load(t, site.URL, "", loaded)
	for _, name := range []string{"app.js", "clock.js", "recording.js", "faults.json", "style.css", "recording.css"} {
		if !loaded[name] {
			t.Errorf("the page does not load %s, only %v", name, loaded)
		}
	}
	if !bytes.Equal(body(t, site.URL+"/recording"), demo) {
		t.Error("the folder has another recording")
	}
}

// load loads a file and all the files that it names.
func load(t *testing.T, site, name string, loaded map[string]bool) {
	t.Helper()
	if loaded[name] {
		return
	}
	loaded[name] = true
	for _, other := range regexp.MustCompile(`(?:href=|src=|from |fetch\()"(?:\./)?([\w.]+)"`).FindAllSubmatch(body(t, site+"/"+name), -1) {
		load(t, site, string(other[1]), loaded)
	}
}

func body(t *testing.T, url string) []byte {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", url, response.Status, err)
	}
	return content
}

// TestRefuses checks that the program plays no file that is not a recording, and knows its flags.
func TestRefuses(t *testing.T) {
	for argument, refused := range map[string]bool{"-h": false, "--nope": true, "main.go": true} {
		if err := run(t.Context(), []string{argument}, io.Discard); (err != nil) != refused {
			t.Errorf("%s: %v", argument, err)
		}
	}
}
