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
	// Dir receives keys, certificates, kubeconfigs and logs. It is created, and left to the caller to remove.
	Dir string
	// Etcd holds its objects under EtcdPrefix, which begins with a slash.
	Etcd       *Etcd
	EtcdPrefix string
	// Bind is the IP address on which the API server listens, 127.0.0.1 when empty. Programs of this machine reach it there, or,
	// where Bind is 0.0.0.0 or ::, at 127.0.0.1.
	Bind string
	// Host is the name or address by which users reach the API server. Empty: the one that programs of this machine use.
	Host string
	// AuditPolicy, a Policy of audit.k8s.io/v1 in YAML, has the API server write an audit log by it. Empty: there is none.
	AuditPolicy []byte
}

// Plane is a control plane. StartAPIServer and Stop must not be called concurrently with other methods. All others may.
type Plane struct {
	options   Options
	access    atomic.Pointer[access]
	apiserver *Process

	mu     sync.Mutex
	others map[string]*Process // by name
}

// access is how the API server is reached. Rotate replaces it.
type access struct {
	ca      *CA // of servers
	clients *CA // of users
	admin   Pair
	port    int
}

// New prepares a control plane: a port, keys and certificates. Nothing runs yet.
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
	p := &Plane{options: options, others: map[string]*Process{}}
	p.access.Store(&access{})
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, err
	}
	if err := errors.Join(p.writeAccountsKey(), p.writeAuditPolicy()); err != nil {
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

// CA is the authority of the cluster's servers.
func (p *Plane) CA() *CA { return p.access.Load().ca }

// local is the address at which programs of this machine reach the API server.
func (p *Plane) local() string { return localTo(p.options.Bind) }

func localTo(bind string) string {
	if net.ParseIP(bind).IsUnspecified() {
		return loopback
	}
	return bind
}

// Config is an administrator's access to the API server.
func (p *Plane) Config() *rest.Config {
	now := p.access.Load()
	return &rest.Config{
		Host: "https://" + HostPort(p.local(), now.port),
		// Tests and emulators make calls in bursts, and the server is theirs alone.
		QPS: 200, Burst: 400,
		TLSClientConfig: rest.TLSClientConfig{CAData: now.ca.PEM(), CertData: now.admin.Cert, KeyData: now.admin.Key},
	}
}

// Kubeconfig is an administrator's kubeconfig file with the host that users reach. It is always the same one until Rotate.
func (p *Plane) Kubeconfig() ([]byte, error) {
	return p.kubeconfig(p.options.Host, "admin", p.access.Load().admin)
}

// KubeconfigFor is as Kubeconfig, with a new certificate that expires after the lifetime.
func (p *Plane) KubeconfigFor(lifetime time.Duration) ([]byte, error) {
	pair, err := p.access.Load().clients.ClientFor(lifetime, adminUser, adminGroup)
	if err != nil {
		return nil, err
	}
	return p.kubeconfig(p.options.Host, "admin", pair)
}

// The administrator of kubeconfigs.
const (
	adminUser  = "kubernetes-admin"
	adminGroup = "system:masters"
)

// WriteKubeconfig writes a kubeconfig file for a program on this machine which acts as that user, and returns its path.
// What the user may do is RBAC's business.
func (p *Plane) WriteKubeconfig(file, user string, groups ...string) (string, error) {
	pair, err := p.access.Load().clients.Client(user, groups...)
	if err != nil {
		return "", err
	}
	content, err := p.kubeconfig(p.local(), user, pair)
	if err != nil {
		return "", err
	}
	return p.file(file), os.WriteFile(p.file(file), content, 0o600)
}

// KubeconfigFile is an administrator's kubeconfig file for programs on this machine.
func (p *Plane) KubeconfigFile() string { return p.file("admin.kubeconfig") }

// Log is the path of the log file of the server with that name.
func (p *Plane) Log(name string) string { return p.file(name + ".log") }

// AuditLog is the path of the audit log, which all API servers that come after each other append to.
func (p *Plane) AuditLog() string { return p.file("audit.log") }

// PIDs are the ids of the processes that run.
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

// Run starts a further server of this control plane, which Stop ends with it. While one of that name runs it does
// nothing.
func (p *Plane) Run(ctx context.Context, spec Spec) error {
	if p.Running(spec.Name) {
		return nil
	}
	spec.Log = p.Log(spec.Name)
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
	for server := range maps.Values(p.others) {
		// They keep no state, and a controller manager takes its time over a clean end.
		server.Kill()
	}
	clear(p.others)
	p.apiserver.Stop()
	p.apiserver = nil
}

// Running reports whether the server that Run started under that name runs.
func (p *Plane) Running(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.others[name].Running()
}

// Rotate replaces the authority and credentials of users, the port, or the authority of servers. It takes effect when the API server and
// all others start again.
func (p *Plane) Rotate(credentials, port, authority bool) error {
	next := *p.access.Load()
	var err error
	if credentials {
		if next.clients, err = NewCA(p.options.Name + " clients"); err != nil {
			return err
		}
		if next.admin, err = next.clients.Client(adminUser, adminGroup); err != nil {
			return err
		}
	}
	if port {
		if next.port, err = FreePort(p.options.Bind); err != nil {
			return err
		}
	}
	if authority {
		if next.ca, err = NewCA(p.options.Name + " CA"); err != nil {
			return err
		}
	}
	p.access.Store(&next)
	return p.writeAccess(authority)
}

// writeAccess writes what the servers read, with a new serving certificate if the authority is new.
func (p *Plane) writeAccess(authority bool) error {
	now := p.access.Load()
	if authority {
		serving, err := now.ca.Serve("kube-apiserver", loopback, p.local(), "localhost", "kubernetes.default.svc", p.options.Host)
		if err != nil {
			return err
		}
		if err := serving.WriteTo(p.options.Dir, "server"); err != nil {
			return err
		}
	}
	content, err := p.kubeconfig(p.local(), "admin", now.admin)
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

func (p *Plane) kubeconfig(host, user string, pair Pair) ([]byte, error) {
	name, now := p.options.Name, p.access.Load()
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: "https://" + HostPort(host, now.port), CertificateAuthorityData: now.ca.PEM()},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			user: {ClientCertificateData: pair.Cert, ClientKeyData: pair.Key},
		},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: user}},
		CurrentContext: name,
	})
}

// ready probes the health endpoint of a server of this control plane.
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
