// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
)

const loopback = "127.0.0.1"

// Options describe a control plane.
type Options struct {
	// Name is the cluster's name in kubeconfigs and errors.
	Name string
	// Dir receives keys, certificates, kubeconfigs and logs. New creates it, and the caller removes it.
	Dir string
	// Etcd stores the cluster's objects under EtcdPrefix, which begins with a slash.
	Etcd       *Etcd
	EtcdPrefix string
	// Bind is the IP address on which the API server listens. The default is 127.0.0.1. Programs on this machine use it, or 127.0.0.1 if
	// Bind is 0.0.0.0 or ::.
	Bind string
	// Host is the name or address that users use for the API server. The default is the address that programs on this machine use.
	Host string
	// Env is added to the environment of all servers of the plane, as "KEY=value".
	Env []string
	// Reusable lets Reuse give the API server to another cluster. The API server then listens on a port of 127.0.0.1 that no user knows, and
	// this process forwards the connections of users to it.
	Reusable bool
}

// forUsers is the use of the ports that users connect to.
const forUsers = "users"

// Plane is a control plane. StartAPIServer, Detach, Reuse and Stop must not be called concurrently with other methods. All other methods are
// safe for concurrent use.
type Plane struct {
	options   Options
	inner     int // port of the API server behind the door, 0 unless Options.Reusable
	access    atomic.Pointer[access]
	apiserver *Process

	mu     sync.Mutex
	others map[string]*Process // by name
	door   *door               // nil unless Options.Reusable, and while users cannot connect
	ports  map[string][]int    // reserved until End, by what they are for. The last one is in use
}

// access holds the name of the cluster, and the port, authorities and credentials of the API server. Rotate and Reuse replace it.
type access struct {
	name    string
	ca      *CA // of servers
	clients *CA // of users
	admin   Pair
	port    int // that users connect to
}

// New prepares a control plane: it reserves a port and creates keys and certificates. It starts no server.
func New(options Options) (*Plane, error) {
	if options.Bind == "" {
		options.Bind = loopback
	}
	if err := CheckBind(options.Bind); err != nil {
		return nil, err
	}
	if options.Host == "" {
		options.Host = localTo(options.Bind)
	}
	p := &Plane{options: options, others: map[string]*Process{}, ports: map[string][]int{}}
	p.access.Store(&access{name: options.Name})
	if options.Reusable {
		var err error
		if p.inner, err = p.reservePort("API server", loopback); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := p.writeAccountsKey(); err != nil {
		return nil, err
	}
	return p, p.Rotate(true, true, true)
}

// CheckBind returns an error if API servers cannot listen on the address.
func CheckBind(address string) error {
	if net.ParseIP(address) == nil {
		return fmt.Errorf("%q is not an IP address to listen on", address)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return fmt.Errorf("listen on %s, is it an address of this machine? %w", address, err)
	}
	return listener.Close()
}

// CA returns the authority of the cluster's servers.
func (p *Plane) CA() *CA { return p.access.Load().ca }

// listens returns the IP address and the port on which the API server listens.
func (p *Plane) listens() (string, int) {
	if p.inner != 0 {
		return loopback, p.inner
	}
	return p.options.Bind, p.access.Load().port
}

// local returns the address and the port that programs on this machine use for the API server.
func (p *Plane) local() (string, int) {
	address, port := p.listens()
	return localTo(address), port
}

func localTo(bind string) string {
	if net.ParseIP(bind).IsUnspecified() {
		return loopback
	}
	return bind
}

// Config returns a client configuration with an administrator's credentials.
func (p *Plane) Config() *rest.Config {
	now := p.access.Load()
	return &rest.Config{
		Host: "https://" + HostPort(p.local()),
		// Tests and emulators make calls in bursts, and no other client uses the server.
		QPS: 200, Burst: 400,
		TLSClientConfig: rest.TLSClientConfig{CAData: now.ca.PEM(), CertData: now.admin.Cert, KeyData: now.admin.Key},
	}
}

// Kubeconfig returns an administrator's kubeconfig with the host that users use. It returns the same bytes until Rotate.
func (p *Plane) Kubeconfig() ([]byte, error) {
	now := p.access.Load()
	return p.kubeconfig(HostPort(p.options.Host, now.port), "admin", now.admin)
}

// KubeconfigFor is like Kubeconfig, but issues a new certificate that expires after the lifetime.
func (p *Plane) KubeconfigFor(lifetime time.Duration) ([]byte, error) {
	now := p.access.Load()
	pair, err := now.clients.ClientFor(lifetime, adminUser, adminGroup)
	if err != nil {
		return nil, err
	}
	return p.kubeconfig(HostPort(p.options.Host, now.port), "admin", pair)
}

// The administrator in kubeconfigs.
const (
	adminUser  = "kubernetes-admin"
	adminGroup = "system:masters"
)

// WriteKubeconfig writes a kubeconfig with which a program on this machine acts as the user, and returns its path. The rights of the
// user come from RBAC.
func (p *Plane) WriteKubeconfig(file, user string, groups ...string) (string, error) {
	pair, err := p.access.Load().clients.Client(user, groups...)
	if err != nil {
		return "", err
	}
	content, err := p.kubeconfig(HostPort(p.local()), user, pair)
	if err != nil {
		return "", err
	}
	return p.file(file), os.WriteFile(p.file(file), content, 0o600)
}

// KubeconfigFile returns the path of an administrator's kubeconfig for programs on this machine.
func (p *Plane) KubeconfigFile() string { return p.file("admin.kubeconfig") }

// Log returns the path of the named server's log file.
func (p *Plane) Log(name string) string { return p.file(name + ".log") }

// PIDs returns the IDs of the running processes.
func (p *Plane) PIDs() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ids []int
	for server := range maps.Values(p.others) {
		if server.Running() {
			ids = append(ids, server.PID())
		}
	}
	if p.apiserver.Running() {
		ids = append(ids, p.apiserver.PID())
	}
	slices.Sort(ids)
	return ids
}

// Run starts another server of this control plane, which Stop ends with the others. It does nothing if a server of that name is running.
func (p *Plane) Run(ctx context.Context, spec Spec) error {
	if p.Running(spec.Name) {
		return nil
	}
	spec.Log, spec.Env = p.Log(spec.Name), p.options.Env
	server, err := Start(ctx, spec)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.others[spec.Name] = server
	return nil
}

// Stop ends all servers, the API server last.
func (p *Plane) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killOthers()
	p.apiserver.Stop()
	p.apiserver = nil
	p.shutDoor()
}

// killOthers ends the servers around the API server. They keep no state, and a controller manager is slow to end cleanly. Callers hold mu.
func (p *Plane) killOthers() {
	for server := range maps.Values(p.others) {
		server.Kill()
	}
	clear(p.others)
}

// End stops all servers for good. Other planes may get the ports.
func (p *Plane) End() {
	p.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for use := range p.ports {
		p.releasePorts(use)
	}
}

// releasePorts releases the ports of a use. Callers hold mu.
func (p *Plane) releasePorts(use string) {
	for _, port := range p.ports[use] {
		ReleasePort(port)
	}
	delete(p.ports, use)
}

// reservePort reserves another port of the address until End.
func (p *Plane) reservePort(use, address string) (int, error) {
	port, err := FreePort(address)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ports[use] = append(p.ports[use], port)
	return port, nil
}

// serverPort returns the port of a server around the API server, which is the same each time the server starts.
func (p *Plane) serverPort(name string) (int, error) {
	p.mu.Lock()
	ports := p.ports[name]
	p.mu.Unlock()
	if len(ports) > 0 {
		return ports[0], nil
	}
	return p.reservePort(name, loopback)
}

// Running reports whether the server that Run started under that name is running.
func (p *Plane) Running(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.others[name].Running()
}

// Rotate replaces the authority and credentials of users, the port, or the authority of servers. The change takes effect when the API
// server and the other servers start again.
func (p *Plane) Rotate(credentials, port, authority bool) error {
	next := *p.access.Load()
	var err error
	if credentials {
		if next.clients, err = NewCA(next.name + " clients"); err != nil {
			return err
		}
		if next.admin, err = next.clients.Client(adminUser, adminGroup); err != nil {
			return err
		}
	}
	if port {
		if next.port, err = p.reservePort(forUsers, p.options.Bind); err != nil {
			return err
		}
	}
	if authority {
		if next.ca, err = NewCA(next.name + " CA"); err != nil {
			return err
		}
	}
	p.access.Store(&next)
	return p.writeAccess(authority)
}

// writeAccess writes the files that the servers read. It issues a new serving certificate if the authority is new.
func (p *Plane) writeAccess(authority bool) error {
	now := p.access.Load()
	if authority {
		hosts := []string{loopback, localTo(p.options.Bind), "localhost", "kubernetes.default.svc", p.options.Host}
		serving, err := now.ca.Serve("kube-apiserver", hosts...)
		if err != nil {
			return err
		}
		if err := serving.WriteTo(p.options.Dir, "server"); err != nil {
			return err
		}
	}
	content, err := p.kubeconfig(HostPort(p.local()), "admin", now.admin)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(p.file("ca.crt"), now.ca.PEM(), 0o600),
		os.WriteFile(p.file("clients.crt"), now.clients.PEM(), 0o600),
		os.WriteFile(p.KubeconfigFile(), content, 0o600),
	)
}

func (p *Plane) writeAccountsKey() error {
	accounts, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	return os.WriteFile(p.file("accounts.key"), accounts, 0o600)
}

// kubeconfig returns a kubeconfig for the server at hostPort.
func (p *Plane) kubeconfig(hostPort, user string, pair Pair) ([]byte, error) {
	now := p.access.Load()
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			now.name: {Server: "https://" + hostPort, CertificateAuthorityData: now.ca.PEM()},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			user: {ClientCertificateData: pair.Cert, ClientKeyData: pair.Key},
		},
		Contexts:       map[string]*clientcmdapi.Context{now.name: {Cluster: now.name, AuthInfo: user}},
		CurrentContext: now.name,
	})
}

// ready returns a probe of the health endpoint of a server of this control plane.
func (p *Plane) ready(host string, port int, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		config := p.Config()
		tlsConfig, err := rest.TLSConfigFor(config)
		if err != nil {
			return err
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}}
		return probe(ctx, client, "https://"+HostPort(host, port)+path)
	}
}

func (p *Plane) file(name string) string { return filepath.Join(p.options.Dir, name) }
