// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator/page"
)

// following is a browser that passes on each event of its stream at once.
type following struct {
	*browser
	to *io.PipeWriter
}

func (f following) Write(p []byte) (int, error) { return f.to.Write(p) }

// recorded returns a recording of a cluster from its creation to its deletion.
func recorded(t *testing.T, p *emulator.Portal) []byte {
	t.Helper()
	in, out := io.Pipe()
	b := &browser{header: http.Header{}}
	ended := make(chan error)
	var file bytes.Buffer
	go func() { ended <- page.Record(&file, page.About{Name: "a test", Version: "v1", Seed: 7}, in) }()
	gone := openStream(t, page.Handler(page.Options{Portal: p}), following{b, out})
	synctest.Wait() // the recording begins without a cluster
	token := createCluster(t, p)
	time.Sleep(20 * time.Second)
	portalCall(t, p, token, "DELETE", "/kubernetes-clusters/"+p.Clusters()[0].ID, "", http.StatusAccepted)
	time.Sleep(20 * time.Second)
	gone()
	_ = out.Close() // as a server does when the browser has gone
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// TestRecording checks that a recording has every state and the whole log, with the times, and nothing else.
func TestRecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := newPortal(t, emulator.Options{})
		file := recorded(t, p)
		recording, err := page.ReadRecording(file)
		if err != nil {
			t.Fatal(err)
		}
		if about := recording.About; about.Name != "a test" || about.Version != "v1" || about.Seed != 7 || !about.Begin.Equal(begin) {
			t.Errorf("it is said to be of %+v", about)
		}
		var log []emulator.LogEntry
		var states []string
		var last, moments int64
		for _, event := range recording.Events {
			if event.At < last {
				t.Errorf("an event at %d ms follows one at %d ms", event.At, last)
			}
			last = event.At
			switch event.Name {
			case "log":
				log = append(log, decoded[[]emulator.LogEntry](t, event.Data)...)
			case "history":
				moments++
			default:
				now := "none"
				for _, cluster := range decoded[struct{ Clusters []struct{ State string } }](t, event.Data).Clusters {
					now = cluster.State
				}
				states = append(states, now)
				if now == "Running" && (event.At < 9_000 || event.At > 21_000) {
					t.Errorf("the cluster runs after %d ms", event.At)
				}
			}
		}
		if moments < 3 {
			t.Errorf("the recording has %d events with moments of the timeline", moments)
		}
		if want := []string{"none", "Creating", "Running", "Deleting", "none"}; !slices.Equal(slices.Compact(states), want) {
			t.Errorf("the cluster is %v, want %v", slices.Compact(states), want)
		}
		if want := p.RequestLog(); len(log) != len(want) || log[len(log)-1].String() != want[len(want)-1].String() {
			t.Errorf("the recording has %d entries of the log, the portal %d", len(log), len(want))
		}
	})
}

// TestRecordingOfAnotherPage checks that a recording is refused that today's page cannot show exactly.
func TestRecordingOfAnotherPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := recorded(t, newPortal(t, emulator.Options{}))
		zipped, err := gzip.NewReader(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		lines, err := io.ReadAll(zipped)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct{ what, from, to, says string }{
			{"with a field that is gone", `"victimOrder":`, `"order":"newest","victimOrder":`, "order"},
			{"without a field that is new", `"victimOrder":"newest",`, ``, "fields are missing"},
			{"without a field of a node", `"state":"joining"`, `"version":""`, "fields are missing"},
			{"with a field of another type", `"percent":100`, `"percent":"100"`, "percent"},
			{"with an unknown field in the log", `"method":"POST"`, `"verb":"POST"`, "verb"},
			{"with an event that is gone", `"event":"log"`, `"event":"notes"`, "no such event"},
			{"with times in another form", `"at":`, `"time":`, "time"},
			{"that does not say of what", `"name":"a test"`, `"name":""`, "what it is of"},
		} {
			if _, err := page.ReadRecording(zip(bytes.Replace(lines, []byte(test.from), []byte(test.to), 1))); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("a recording %s: %v, want an error with %q", test.what, err, test.says)
			}
		}
		about, _, _ := bytes.Cut(lines, []byte("\n"))
		if _, err := page.ReadRecording(zip(about)); err == nil || !strings.Contains(err.Error(), "does not begin with a state") {
			t.Errorf("a recording without events: %v", err)
		}
		if _, err := page.ReadRecording(file[:len(file)-20]); err == nil {
			t.Error("a file without its end is read")
		}
	})
}

func zip(lines []byte) []byte {
	var file bytes.Buffer
	out := gzip.NewWriter(&file)
	_, _ = out.Write(lines) // a buffer takes everything
	_ = out.Close()
	return file.Bytes()
}

// TestPlayer checks that the player is the page of a portal with a recording, and that it answers as strictly.
func TestPlayer(t *testing.T) {
	recording := []byte("a recording")
	if _, err := page.ListenPlayer(t.Context(), "0.0.0.0:0", recording); err == nil {
		t.Error("the player is open to the network")
	}
	server, err := page.ListenPlayer(t.Context(), "127.0.0.1:0", recording)
	if err != nil {
		t.Fatal(err)
	}
	p := newPortal(t, emulator.Options{})
	live, err := page.Listen(t.Context(), "127.0.0.1:0", page.Options{Portal: p})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"app.js", "recording.js", "recording.css", "faults.json", "icon.svg"} {
		_, plays := get(t, server.URL+name)
		if _, follows := get(t, live.URL+name); plays != follows || len(plays) < 100 {
			t.Errorf("%s is another file for a recording:\n%s", name, plays)
		}
	}
	response, index := get(t, server.URL)
	if _, follows := get(t, live.URL); strings.Contains(follows, `name="recording"`) || strings.Count(index, `name="recording"`) != 1 || len(index) < len(follows) {
		t.Errorf("the player begins with\n%s", index)
	}
	if policy := response.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") {
		t.Errorf("policy %q", policy)
	}
	if _, body := get(t, server.URL+"recording"); body != string(recording) {
		t.Errorf("the recording is served as %q", body)
	}
	for _, path := range []string{"events", "snapshot", "static/app.js", "page.go"} {
		if response, _ := get(t, server.URL+path); response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, response.StatusCode)
		}
	}
	for _, s := range []*page.Server{server, live} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
