// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// serverGrace is how long an API server may take to finish requests. Most requests take milliseconds. Without this limit the server would
// wait for watches for up to the request timeout of one minute.
const serverGrace = time.Second

// StartAPIServer runs the kube-apiserver binary and returns when it is ready. It first stops all running servers of the plane: controllers
// without an API server would back off longer and longer, while restarted controllers connect at once.
func (p *Plane) StartAPIServer(ctx context.Context, binary string) error {
	p.Stop()
	bind, port := p.listens()
	server, err := Start(ctx, Spec{
		Name: "kube-apiserver",
		Path: binary,
		Args: []string{
			"--etcd-servers=" + p.options.Etcd.URL, "--etcd-prefix=" + p.options.EtcdPrefix,
			"--bind-address=" + bind, "--secure-port=" + strconv.Itoa(port),
			// The Service "kubernetes" would need an address that is not loopback, and no client uses it.
			"--advertise-address=" + loopback, "--endpoint-reconciler-type=none",
			"--tls-cert-file=" + p.file("server.crt"), "--tls-private-key-file=" + p.file("server.key"),
			// Without --requestheader-client-ca-file, which no client needs and which costs 2 inotify instances of 128.
			"--client-ca-file=" + p.file("clients.crt"),
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=" + p.file("accounts.key"),
			"--service-account-signing-key-file=" + p.file("accounts.key"),
			"--service-cluster-ip-range=10.96.0.0/16",
			"--authorization-mode=RBAC",
			"--allow-privileged",
			"--profiling=false",
		},
		Env:   p.options.Env,
		Log:   p.Log("kube-apiserver"),
		Ready: p.ready(localTo(bind), port, "/readyz"),
		Grace: serverGrace,
	})
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.apiserver = server
	p.mu.Unlock()
	return p.openDoor()
}

// APIServerRunning reports whether the API server runs.
func (p *Plane) APIServerRunning() bool { return p.apiserver.Running() }

// StartControllerManager runs the kube-controller-manager binary with additional flags.
func (p *Plane) StartControllerManager(ctx context.Context, binary string, flags ...string) error {
	port, err := p.serverPort("kube-controller-manager")
	if err != nil {
		return err
	}
	return p.Run(ctx, Spec{
		Name: "kube-controller-manager",
		Path: binary,
		Args: slices.Concat(p.serving(port), []string{
			"--service-account-private-key-file=" + p.file("accounts.key"),
			"--root-ca-file=" + p.file("ca.crt"),
		}, flags),
		Ready: p.ready(loopback, port, "/healthz"),
	})
}

// StartScheduler runs the kube-scheduler binary.
func (p *Plane) StartScheduler(ctx context.Context, binary string) error {
	port, err := p.serverPort("kube-scheduler")
	if err != nil {
		return err
	}
	return p.Run(ctx, Spec{
		Name:  "kube-scheduler",
		Path:  binary,
		Args:  p.serving(port),
		Ready: p.ready(loopback, port, "/healthz"),
	})
}

// serving returns the flags that all components have in common.
func (p *Plane) serving(port int) []string {
	return []string{
		"--kubeconfig=" + p.KubeconfigFile(),
		"--authentication-kubeconfig=" + p.KubeconfigFile(), "--authorization-kubeconfig=" + p.KubeconfigFile(),
		"--bind-address=" + loopback, "--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + p.file("server.crt"), "--tls-private-key-file=" + p.file("server.key"),
		"--leader-elect=false",
		"--profiling=false",
	}
}
