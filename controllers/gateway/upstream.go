// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

const (
	// dialTimeout and headerTimeout bound what the client's own timeout does not: a cache gives its lists and watches 11 minutes.
	dialTimeout   = 5 * time.Second
	headerTimeout = 30 * time.Second
	// maxHeader is far above the headers of an API server. net/http accepts 10 MB by default.
	maxHeader = 64 << 10
	// unusedTime is far above the interval of the ClusterCache's health probes.
	unusedTime = 10 * time.Minute
)

// upstream is the route to one API server, with the kubeconfig that the ClusterCache connected with.
type upstream struct {
	cluster   client.ObjectKey
	server    *url.URL
	transport *http.Transport
	proxy     *httputil.ReverseProxy
	tenant    *tenant
	used      atomic.Int64 // when a request was last sent, in Unix seconds
	oversized atomic.Bool
	behind    atomic.Int64 // how far the API server's clock is behind the manager's
}

func newUpstream(cluster client.ObjectKey, kubeconfig []byte, hosts *cloud.Hosts) (*upstream, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	switch {
	case err != nil:
		return nil, errors.New("it holds no valid kubeconfig") // the cause may quote it
	case config.ExecProvider != nil || config.AuthProvider != nil:
		return nil, errors.New("its kubeconfig runs a program or a plugin")
	}
	up := &upstream{cluster: cluster}
	up.used.Store(time.Now().Unix())
	if up.server, _, err = rest.DefaultServerUrlFor(config); err != nil {
		return nil, err
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	up.transport = &http.Transport{ // HTTP/1.1, so that each answer has its own connection and cutting one ends no other
		TLSClientConfig: tlsConfig, DialContext: hosts.DialServer(up.server), Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: dialTimeout,
		ResponseHeaderTimeout: headerTimeout, MaxResponseHeaderBytes: maxHeader, DisableCompression: true, IdleConnTimeout: time.Minute,
	}
	authenticated, err := rest.HTTPWrappersForConfig(config, up.transport)
	if err != nil {
		return nil, err
	}
	up.proxy = &httputil.ReverseProxy{
		Rewrite: up.rewrite, Transport: authenticated, ModifyResponse: up.bound, BufferPool: buffers{},
		ErrorLog: log.New(io.Discard, "", 0), // the client logs what it makes of it
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}
	return up, nil
}

// buffers allocates the buffers that answers are copied through. A watch keeps its buffer as long as it lasts, so each connected
// cluster has one. The proxy's default is 32 KiB.
type buffers struct{}

func (buffers) Get() []byte { return make([]byte, 4<<10) }
func (buffers) Put([]byte)  {}

func (u *upstream) serve(w http.ResponseWriter, r *http.Request) {
	u.used.Store(time.Now().Unix())
	u.proxy.ServeHTTP(w, r)
}

// unused reports whether the route was not used for a long time: the Cluster is gone, or is not connected any more.
func (u *upstream) unused() bool { return time.Since(time.Unix(u.used.Load(), 0)) > unusedTime }

// rewrite directs a request to the API server. It asks for JSON, because meter reads no other format, and for all Nodes in one
// answer, whose size meter bounds. The cache would keep asking for further pages for as long as the API server names any.
func (u *upstream) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(u.server)
	if listsNodes(r.In) {
		query := r.Out.URL.Query()
		query.Del("limit")
		r.Out.URL.RawQuery = query.Encode()
	}
	r.Out.Header.Del("Authorization") // it holds the gateway's token
	r.Out.Header.Del("Upgrade")
	r.Out.Header.Set("Accept-Encoding", "identity")
	accept := "application/json"
	for kind := range strings.SplitSeq(r.In.Header.Get("Accept"), ",") {
		if kind = strings.TrimSpace(kind); strings.HasPrefix(kind, "application/json;") {
			accept = kind + "," + accept
		}
	}
	r.Out.Header.Set("Accept", accept)
}

// bound refuses an answer that meter could not read, or that would lead the client past the gateway. The others are read by a
// meter.
func (u *upstream) bound(answer *http.Response) error {
	if date, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		u.behind.Store(int64(time.Since(date).Truncate(time.Second)))
	}
	encoding := answer.Header.Get("Content-Encoding")
	switch {
	case answer.StatusCode == http.StatusSwitchingProtocols, answer.StatusCode >= 300 && answer.StatusCode < 400:
		return fmt.Errorf("the API server answered with a redirect (status %d), which is not followed", answer.StatusCode)
	case encoding != "" && encoding != "identity":
		return errors.New("the answer is compressed")
	}
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") {
		answer.Header.Set("Content-Type", "text/plain") // nothing decodes it
	}
	answer.Body = u.meter(answer)
	return nil
}
