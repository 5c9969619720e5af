// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestAccess classifies how an API server reacts to a kubeconfig.
func TestAccess(t *testing.T) {
	serve := func(status int, body string) *httptest.Server {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Location", "https://"+r.Host+"/elsewhere")
			if r.URL.Path != "/version" {
				watches(w, r)
				_, _ = io.WriteString(w, list(""))
				return
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		return server
	}
	to := func(server *httptest.Server) []byte {
		return kubeconfigOf([]byte(server.URL), server.Certificate().Raw, "token: t")
	}
	closed, works := serve(200, answeredVersion), serve(200, answeredVersion)
	closed.Close()
	silent := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(silent.CloseClientConnections)
	another, _, err := certutil.GenerateSelfSignedCertKey("example.com", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(another)
	stranger := block.Bytes
	forbidding := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/version" {
			w.WriteHeader(http.StatusForbidden)
		}
		answerJSON(answeredVersion)(w, r)
	}))
	t.Cleanup(forbidding.Close)
	tests := map[string]struct {
		kubeconfig []byte
		want       Health
	}{
		"it answers":             {to(works), Working},
		"401":                    {to(serve(401, "")), Unauthorized},
		"403":                    {to(serve(403, "")), Unauthorized},
		"403 for its Nodes":      {to(forbidding), Unauthorized},
		"it starts":              {to(serve(503, "")), Unreachable},
		"it leads elsewhere":     {to(serve(302, answeredVersion)), Unreachable},
		"it has no version":      {to(serve(200, "{}")), Unreachable},
		"closed":                 {to(closed), Unreachable},
		"silent":                 {to(silent), Unreachable},
		"another certificate":    {kubeconfigOf([]byte(works.URL), stranger, "token: t"), Untrusted},
		"an address of metadata": {kubeconfigOf([]byte("https://169.254.169.254"), stranger, "token: t"), Unreachable},
		"a command":              {kubeconfigOf([]byte(works.URL), stranger, "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, interactiveMode: Never}"), Unusable},
		"nothing":                {nil, Unusable},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			c := newConnections(t, "127.0.0.1")
			got := c.Ensure(keyOf("a"), test.kubeconfig)
			const patience = 2 * time.Minute // TestVersion has the time that a probe may take
			for begin := time.Now(); got.Health() != test.want; time.Sleep(10 * time.Millisecond) {
				if time.Since(begin) > patience {
					t.Fatalf("%q after %s, want %q", got.Health(), patience, test.want)
				}
			}
			time.Sleep(100 * time.Millisecond)
			if got.Health() != test.want {
				t.Errorf("%q, want %q", got.Health(), test.want)
			}
		})
	}
}

// connected is a connection in a bubble, and its API server.
type connected struct {
	*testing.T
	*Connections
	*Connection
	server  *piped
	version atomic.Value
	asked   atomic.Int32 // for the version
	lists   atomic.Int32 // of Nodes
	hangs   atomic.Bool
	events  chan string // of the watch of Nodes
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func newConnected(t *testing.T) *connected {
	t.Helper()
	c := &connected{T: t, events: make(chan string)}
	c.version.Store("v1.35.6")
	c.server = newPiped(t, c)
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	c.Connections = &Connections{Dial: c.server.dial, QPS: 20, Burst: 30, Trim: func(n *corev1.Node) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, ResourceVersion: n.ResourceVersion, Labels: n.Labels}}
	}}
	if err := c.Source().Start(t.Context(), c.queue); err != nil {
		t.Fatal(err)
	}
	c.Connection = c.Ensure(keyOf("a"), c.server.kubeconfig("token: t"))
	return c
}

// end ends everything that runs in the bubble.
func (c *connected) end() {
	c.Drop(keyOf("a"))
	c.queue.ShutDown()
	time.Sleep(time.Minute)
}

// ServeHTTP implements http.Handler.
func (c *connected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.URL.Path == "/version":
		c.asked.Add(1)
		if c.hangs.Load() {
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}
		_, _ = fmt.Fprintf(w, `{"gitVersion":%q}`, c.version.Load())
	case r.URL.Query().Has("watch"):
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case event := <-c.events:
				_, _ = io.WriteString(w, event)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	default:
		c.lists.Add(1)
		_, _ = io.WriteString(w, list(`{"metadata":{"name":"n","uid":"u"}}`))
	}
}

// woken reports whether the control plane was woken since the last call.
func (c *connected) woken() bool {
	c.Helper()
	synctest.Wait()
	if c.queue.Len() == 0 {
		return false
	}
	request, _ := c.queue.Get()
	c.queue.Done(request)
	if request.NamespacedName != keyOf("a") {
		c.Errorf("woken: %s", request)
	}
	return true
}

func (c *connected) event(kind, node string) {
	c.events <- fmt.Sprintf(`{"type":%q,"object":{"kind":"Node","apiVersion":"v1","metadata":{%s}}}`+"\n", kind, node)
}

func (c *connected) kept() []corev1.Node {
	c.Helper()
	all := &corev1.NodeList{}
	if err := c.Connection.List(c.Context(), all); err != nil {
		c.Error(err)
	}
	return all.Items
}

// TestLimits checks that QPS and Burst limit the requests to an API server.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConnected(t)
		defer c.end()
		c.QPS, c.Burst = 0.5, 3
		limited := c.Ensure(keyOf("b"), c.server.kubeconfig("token: t")).Client()
		defer c.Drop(keyOf("b"))
		begin := time.Now()
		for range 5 {
			if err := limited.List(t.Context(), &corev1.NodeList{}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin).Round(time.Millisecond); took != 4*time.Second {
			t.Errorf("5 requests took %s, want 3 at once and 2 with 2 s each", took)
		}
	})
}

// TestNodesWake: the Nodes are kept trimmed, and wake the control plane when one comes, goes or changes in a kept part.
func TestNodesWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConnected(t)
		defer c.end()
		if !c.woken() || c.Health() != Working || len(c.kept()) != 1 || c.kept()[0].UID != "" {
			t.Fatalf("%q, Nodes: %v", c.Health(), c.kept())
		}
		for i, test := range []struct {
			kind, node string
			count      int
			wakes      bool
		}{
			{"ADDED", `"name":"m","resourceVersion":"2"`, 2, true},
			{"MODIFIED", `"name":"m","resourceVersion":"3","annotations":{"a":"b"}`, 2, false},
			{"MODIFIED", `"name":"m","resourceVersion":"4","labels":{"a":"b"}`, 2, true},
			{"DELETED", `"name":"m","resourceVersion":"5"`, 1, true},
		} {
			c.event(test.kind, test.node)
			if woken := c.woken(); woken != test.wakes || len(c.kept()) != test.count {
				t.Errorf("event %d: woken %t, %d Nodes", i, woken, len(c.kept()))
			}
		}
		time.Sleep(time.Hour)
		if c.woken() {
			t.Error("woken although nothing changes")
		}
		if asked := c.asked.Load(); asked < 355 || asked > 362 {
			t.Errorf("asked %d times in an hour", asked)
		}
	})
}

// TestVersion: a version counts only if the API server was asked for it after the question was put. A pass never waits for it.
func TestVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConnected(t)
		defer c.end()
		look := func(question, want string) {
			t.Helper()
			start := time.Now()
			if got := c.Version(question); got != want || time.Since(start) > 0 {
				t.Errorf("%q: %q after %s, want %q", question, got, time.Since(start), want)
			}
		}
		synctest.Wait()
		look("create", "") // it was asked before
		synctest.Wait()
		look("create", "v1.35.6")
		c.woken()
		c.version.Store("v1.36.3")
		look("create", "v1.35.6")
		time.Sleep(probeInterval)
		if !c.woken() {
			t.Error("another version does not wake the control plane")
		}
		look("create", "v1.36.3")
		c.hangs.Store(true)
		time.Sleep(probeInterval) // a probe is under way
		c.hangs.Store(false)
		look("upgrade", "")
		time.Sleep(probeTimeout)
		if !c.woken() {
			t.Error("not woken")
		}
		look("upgrade", "v1.36.3")
		c.hangs.Store(true)
		look("another", "")
		time.Sleep(probeTimeout)
		synctest.Wait()
		look("another", "")
		if c.Health() != Unreachable {
			t.Errorf("%q: an API server that hangs", c.Health())
		}
	})
}

// TestLossAndReturn: a lost connection is noticed within the interval and the timeout of a probe. When the API server is back, the
// Nodes are listed again, because a watch from before may hang.
func TestLossAndReturn(t *testing.T) {
	for title, lose := range map[string]func(c *connected, lost bool){
		"it hangs":     func(c *connected, lost bool) { c.hangs.Store(lost) },
		"it is closed": func(c *connected, lost bool) { c.server.gone.Store(lost); c.hangs.Store(lost) },
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newConnected(t)
				defer c.end()
				c.Version("q")
				synctest.Wait()
				c.woken()
				lose(c, true)
				time.Sleep(probeInterval + probeTimeout)
				if !c.woken() || c.Health() != Unreachable || c.Version("q") != "" {
					t.Errorf("lost: %q", c.Health())
				}
				time.Sleep(time.Hour + time.Second)
				lose(c, false)
				time.Sleep(probeInterval + probeTimeout)
				if !c.woken() || c.Health() != Working || c.Version("q") != "v1.35.6" || len(c.kept()) != 1 || c.lists.Load() != 2 {
					t.Errorf("back: %q, %d lists", c.Health(), c.lists.Load())
				}
			})
		})
	}
}

// TestEnsure: the same kubeconfig has the same connection, and another one or another control plane has a new one.
func TestEnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConnected(t)
		defer c.end()
		synctest.Wait()
		if c.Ensure(keyOf("a"), c.server.kubeconfig("token: t")) != c.Connection {
			t.Error("another connection for the same kubeconfig")
		}
		other := c.Ensure(keyOf("b"), c.server.kubeconfig("token: t"))
		if other == c.Connection {
			t.Error("two control planes share a connection")
		}
		c.Drop(keyOf("b"))
		renewed := c.Ensure(keyOf("a"), c.server.kubeconfig("token: new"))
		if renewed == c.Connection {
			t.Error("the same connection with another kubeconfig")
		}
		synctest.Wait()
		asked := c.asked.Load()
		time.Sleep(probeInterval)
		synctest.Wait()
		if renewed.Health() != Working || c.asked.Load() != asked+1 {
			t.Errorf("%q, %d probes of one connection", renewed.Health(), c.asked.Load()-asked)
		}
	})
}

// TestCrowd: more Nodes than a plan may have are not read, until fewer exist.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConnected(t)
		defer c.end()
		synctest.Wait()
		for i := range MaxObjects {
			c.event("ADDED", fmt.Sprintf(`"name":"m-%d"`, i))
		}
		synctest.Wait()
		if err := c.Connection.List(t.Context(), &corev1.NodeList{}); !errors.Is(err, ErrOversized) {
			t.Errorf("%d Nodes: %v", MaxObjects+1, err)
		}
		c.event("DELETED", `"name":"m-0"`)
		synctest.Wait()
		if kept := c.kept(); len(kept) != MaxObjects {
			t.Errorf("%d Nodes are kept", len(kept))
		}
	})
}
