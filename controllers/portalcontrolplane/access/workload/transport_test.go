// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestAnswersWithinBounds: the API server's answers reach the client, and the request has the stored credentials.
func TestAnswersWithinBounds(t *testing.T) {
	for title, items := range map[string]string{
		"no Node":            "",
		"as many as allowed": strings.Repeat("{},", MaxObjects-1) + "{}",
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
		"a Node of empty conditions": {func(*fixture) http.HandlerFunc {
			return answerJSON(list(`{"status":{"conditions":[` + strings.Repeat("{},", maxCommas) + `{}]}}`))
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
			_, err := f.list("a")
			if err == nil {
				t.Error("the client has decoded it")
			}
			if sent := f.sent.Load(); sent > 2*MaxNodeList {
				t.Errorf("%d bytes were read of it", sent)
			}
			if errors.Is(err, errTooLarge) != test.oversized {
				t.Error(err)
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

// TestWatch: events are read as they come, until they are too large together, which ends the watch.
func TestWatch(t *testing.T) {
	event := func(size int) string {
		return `{"type":"MODIFIED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"` + strings.Repeat("n", size) + `"}}}` + "\n"
	}
	const size, events = 1 << 20, maxWatch>>20 - 1
	f := newFixture(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for range events {
			_, _ = io.WriteString(w, event(size))
		}
		_, _ = io.WriteString(w, event(2*size))
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
		t.Errorf("%d events have come, want %d, and not the last one", got, events)
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
