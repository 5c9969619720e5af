// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAnswersWithinBounds: the API server's answers reach the client, and the request has the stored credentials.
func TestAnswersWithinBounds(t *testing.T) {
	for title, items := range map[string]string{
		"no Node":                    "",
		"as many as allowed":         strings.Repeat("{},", MaxObjects-1) + "{}",
		"brackets and commas quoted": `{"metadata":{"name":"n","annotations":{"a":"` + strings.Repeat(`[{,\"`, maxValues) + `"}}}`,
	} {
		t.Run(title, func(t *testing.T) {
			f := newFixture(t, answerJSON(list(items)))
			if _, err := f.list("a"); err != nil {
				t.Error(err)
			}
			if seen := f.seen.Load(); seen.Header.Get("Authorization") != "Bearer stored" || seen.Header.Get("Accept-Encoding") != "identity" {
				t.Errorf("the API server has seen %v", seen.Header)
			}
		})
	}
}

// TestKinds: the kinds that the provider and core's drain read are known, and asked for as JSON.
func TestKinds(t *testing.T) {
	pods := &metav1.PartialObjectMetadataList{}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	for path, kind := range map[string]client.ObjectList{
		"/api/v1/nodes": &corev1.NodeList{}, "/api/v1/namespaces": &corev1.NamespaceList{}, "/api/v1/namespaces/x/pods": &corev1.PodList{},
		"/apis/apps/v1/namespaces/x/daemonsets": &appsv1.DaemonSetList{}, "/api/v1/pods": pods,
	} {
		f := newFixture(t, answerJSON(`{}`))
		var in []client.ListOption
		if strings.Contains(path, "/x/") {
			in = append(in, client.InNamespace("x"))
		}
		_ = f.connect("a").Client().List(t.Context(), kind, in...) // the answer is of no kind
		if seen := f.seen.Load(); seen == nil || seen.URL.Path != path || strings.Contains(seen.Header.Get("Accept"), "protobuf") {
			t.Errorf("%s: the API server has seen %+v", path, seen)
		}
	}
}

// TestAnswersBeyondBounds: none of these answers reaches the client, and a list of Nodes that is too large is reported.
func TestAnswersBeyondBounds(t *testing.T) {
	tests := map[string]struct {
		answer    func(f *fixture) http.HandlerFunc
		oversized bool
	}{
		"endless spaces":        {func(f *fixture) http.HandlerFunc { return f.endless(" ") }, true},
		"one endless Node":      {func(f *fixture) http.HandlerFunc { return f.endless(`{"metadata":{"name":"`) }, true},
		"endless empty objects": {func(f *fixture) http.HandlerFunc { return f.endless("{},") }, true},
		"one object too many":   {func(*fixture) http.HandlerFunc { return answerJSON(list(strings.Repeat("{},", MaxObjects+1) + "{}")) }, true},
		"a Node of empty conditions": {func(*fixture) http.HandlerFunc {
			return answerJSON(list(`{"status":{"conditions":[` + strings.Repeat("{},", maxValues) + `{}]}}`))
		}, true},
		"compressed": {func(*fixture) http.HandlerFunc { return compressed }, false},
		"protobuf": {func(*fixture) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
				_, _ = io.WriteString(w, "k8s\x00\n\x0e\n\x02v1\x12\x08NodeList")
			}
		}, false},
		"elsewhere": {func(*fixture) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
			}
		}, false},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			f := &fixture{}
			f = newFixture(t, func(w http.ResponseWriter, r *http.Request) { test.answer(f)(w, r) })
			if _, err := f.list("a"); err == nil {
				t.Error("the client has decoded it")
			}
			if sent := f.sent.Load(); sent > 2*MaxNodeList {
				t.Errorf("%d bytes were read of it", sent)
			}
			if oversized := f.connect("a").transport.oversized.Load(); oversized != test.oversized {
				t.Errorf("oversized: %v", oversized)
			}
		})
	}
}

// endless answers a list that begins as it should.
func (f *fixture) endless(item string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, strings.TrimSuffix(list(""), "]}"))
		for chunk := strings.Repeat(item, 10_000); err == nil; {
			f.sent.Add(int64(len(chunk)))
			_, err = io.WriteString(w, chunk)
		}
	}
}

func compressed(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	zip := gzip.NewWriter(w)
	_, _ = io.WriteString(zip, list(""))
	_ = zip.Close()
}

// TestWatch: events are read as they come, however many bytes there are of them, until one is too large.
func TestWatch(t *testing.T) {
	event := func(size int) string {
		return `{"type":"MODIFIED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"` + strings.Repeat("n", size) + `"}}}` + "\n"
	}
	const events = maxAnswer/maxEvent + 1
	f := newFixture(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range events {
			_, _ = io.WriteString(w, event(maxEvent-1000))
		}
		_, _ = io.WriteString(w, event(maxEvent))
	})
	watch, err := f.connect("a").lister.Watch(metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := 0
	for one := range watch.ResultChan() {
		if _, ok := one.Object.(*corev1.Node); ok {
			got++
		}
	}
	if got != events {
		t.Errorf("%d events have come, want %d: more than %d bytes, and not the last one", got, events, maxAnswer)
	}
}

// TestEventsOfANamespace: more events than a burst are read as slowly as they may come, and those of another namespace at once.
func TestEventsOfANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other, start := newTenant(), newTenant(), time.Now()
		for range eventBurst + 10*eventRate {
			if err := one.event(t.Context(), 100); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start).Round(time.Second); took != 10*time.Second {
			t.Errorf("it took %s", took)
		}
		start = time.Now()
		if err := other.event(t.Context(), maxEvent); err != nil || time.Since(start) > 0 {
			t.Errorf("another namespace waits: %v", err)
		}
	})
}

// TestUnfinishedAnswersOfANamespace: answers that never end count only against their own namespace, and only until they are closed.
func TestUnfinishedAnswersOfANamespace(t *testing.T) {
	most := strings.Repeat(" ", maxAnswer-1000)
	f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, most)
		if r.URL.Path == "/hang" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	ask := func(namespace, path string) (int, func() error) {
		c := f.connect(namespace)
		asker := http.Client{Transport: c.transport}
		response, err := asker.Get(strings.TrimSuffix(c.url, "/version") + path)
		if err != nil { // it was cut before anything was passed on
			return 0, func() error { return nil }
		}
		n, _ := io.ReadFull(response.Body, make([]byte, len(most)))
		return n, response.Body.Close
	}
	var end []func() error
	for range maxUnderWay / maxAnswer {
		n, stop := ask("a", "/hang")
		if end = append(end, stop); n != len(most) {
			t.Fatalf("cut after %d bytes", n)
		}
	}
	if n, stop := ask("a", "/"); n == len(most) || stop() != nil {
		t.Error("one more answer of the namespace was read")
	}
	if n, stop := ask("b", "/"); n != len(most) || stop() != nil {
		t.Error("an answer of another namespace was cut")
	}
	for _, stop := range end {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if n, stop := ask("a", "/"); n == len(most) && stop() == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the namespace has no place any more")
		}
	}
}

// TestClockBehind: the clock of an API server is known from its answers.
func TestClockBehind(t *testing.T) {
	for _, behind := range []time.Duration{0, 5 * time.Minute, -5 * time.Minute} {
		f := newFixture(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(-behind).UTC().Format(http.TimeFormat))
			answerJSON(list(""))(w, r)
		})
		if _, err := f.list("a"); err != nil {
			t.Fatal(err)
		}
		if got := f.connect("a").ClockBehind() - behind; got < -time.Second || got > 2*time.Minute {
			t.Errorf("%s behind: %s off", behind, got)
		}
	}
}
