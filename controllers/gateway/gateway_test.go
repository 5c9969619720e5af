// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// secrets are the kubeconfig Secrets, by namespace and name.
type secrets map[client.ObjectKey][]byte

func (s secrets) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	secret, ok := obj.(*corev1.Secret)
	if !ok || s[key] == nil {
		return apierrors.NewNotFound(corev1.Resource("secrets"), key.Name)
	}
	secret.Data = map[string][]byte{"value": s[key]}
	return nil
}

func (secrets) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// fixture is a gateway, and one API server of two namespaces.
type fixture struct {
	*testing.T
	gateway *Gateway
	secrets secrets
	sent    atomic.Int64 // bytes, by the API server
	seen    atomic.Pointer[http.Request]
}

func newFixture(t *testing.T, answer http.HandlerFunc) *fixture {
	t.Helper()
	f := &fixture{T: t, secrets: secrets{}}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.seen.Store(r)
		answer(w, r)
	}))
	t.Cleanup(server.CloseClientConnections)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for _, namespace := range []string{"a", "b"} {
		f.secrets[secretOf(namespace)] = kubeconfig(t, &rest.Config{Host: server.URL, BearerToken: "stored", TLSClientConfig: rest.TLSClientConfig{CAData: authority}})
	}
	hosts, err := cloud.NewHosts("127.0.0.1") // where the API server is
	if err != nil {
		t.Fatal(err)
	}
	if f.gateway, err = New(f.secrets, hosts); err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := f.gateway.Start(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	return f
}

func secretOf(namespace string) client.ObjectKey {
	return client.ObjectKey{Namespace: namespace, Name: "prod-kubeconfig"}
}

func kubeconfig(t *testing.T, config *rest.Config) []byte {
	t.Helper()
	text, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: config.BearerToken, Exec: config.ExecProvider}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "c",
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// config is what the ClusterCache would read.
func (f *fixture) config(namespace string) *rest.Config {
	f.Helper()
	secret := &corev1.Secret{}
	if err := f.gateway.Get(f.Context(), secretOf(namespace), secret); err != nil {
		f.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		f.Fatal(err)
	}
	config.QPS = -1
	return config
}

func (f *fixture) client(namespace string) *kubernetes.Clientset {
	f.Helper()
	return kubernetes.NewForConfigOrDie(f.config(namespace))
}

func answerJSON(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

func list(items string) string {
	return `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` + items + `]}`
}

// TestAnswersWithinBounds: the API server's answers reach the client, and the request has the stored credentials, not the
// gateway's.
func TestAnswersWithinBounds(t *testing.T) {
	for title, items := range map[string]string{
		"no Node":                    "",
		"as many as allowed":         strings.Repeat("{},", MaxObjects-1) + "{}",
		"brackets and commas quoted": `{"metadata":{"name":"n","annotations":{"a":"` + strings.Repeat(`[{,\"`, maxValues) + `"}}}`,
	} {
		t.Run(title, func(t *testing.T) {
			f := newFixture(t, answerJSON(list(items)))
			if _, err := f.client("a").CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Error(err)
			}
			if seen := f.seen.Load(); seen.Header.Get("Authorization") != "Bearer stored" || seen.Header.Get("Accept-Encoding") != "identity" {
				t.Errorf("the API server has seen %v", seen.Header)
			}
		})
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
			if _, err := f.client("a").CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
				t.Error("the client has decoded it")
			}
			if sent := f.sent.Load(); sent > 2*MaxNodeList {
				t.Errorf("%d bytes were read of it", sent)
			}
			if oversized := f.gateway.Oversized(client.ObjectKey{Namespace: "a", Name: "prod"}); oversized != test.oversized {
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

// TestWatch: events reach the client as they come, however many bytes there are of them, until one is too large.
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
	watch, err := f.client("a").CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
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
	if _, err := f.client("a").CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{SendInitialEvents: new(bool)}); !apierrors.IsBadRequest(err) {
		t.Errorf("a streamed list: %v", err)
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

// TestUnfinishedAnswersOfANamespace: answers that never end count only against their own namespace, and only until they are
// closed.
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
		config := f.config(namespace)
		asker, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		response, err := asker.Get(config.Host + path)
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
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
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
			answerJSON(`{"gitVersion":"v1.35.6"}`)(w, r)
		})
		key := client.ObjectKey{Namespace: "a", Name: "prod"}
		if got := f.gateway.ClockBehind(key); got != 0 {
			t.Errorf("%s before the first answer", got)
		}
		if _, err := f.client("a").ServerVersion(); err != nil {
			t.Fatal(err)
		}
		if got := f.gateway.ClockBehind(key) - behind; got < -time.Second || got > 10*time.Second {
			t.Errorf("%s behind: %s off", behind, got)
		}
	}
}

// TestWays: a route ends when the ClusterCache connects again, and leads neither to link-local addresses nor to programs.
func TestWays(t *testing.T) {
	f := newFixture(t, answerJSON(`{"gitVersion":"v1.35.6"}`))
	before := f.client("a")
	if _, err := before.ServerVersion(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client("a").ServerVersion(); err != nil {
		t.Error(err)
	}
	if _, err := before.ServerVersion(); !apierrors.IsUnauthorized(err) {
		t.Errorf("the way before: %v", err)
	}
	f.secrets[secretOf("b")] = kubeconfig(t, &rest.Config{Host: "https://169.254.169.254"})
	if _, err := f.client("b").ServerVersion(); err == nil || !strings.Contains(err.Error(), "loopback, link-local") {
		t.Errorf("an address of metadata: %v", err)
	}
	f.secrets[secretOf("b")] = kubeconfig(t, &rest.Config{Host: "https://127.0.0.1", ExecProvider: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: "id", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}})
	if err := f.gateway.Get(t.Context(), secretOf("b"), &corev1.Secret{}); err == nil || !strings.Contains(err.Error(), "runs a program") {
		t.Errorf("a program: %v", err)
	}
}
