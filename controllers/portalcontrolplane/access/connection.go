// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/kubeconfig"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/access/workload"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/secretcache"
)

// Kubeconfigs keep the kubeconfig Secrets and the connections of all control planes.
type Kubeconfigs struct {
	Client    client.Client
	Secrets   *secretcache.Cache
	Workloads Workloads
	// Hosts decides which servers kubeconfigs may name.
	Hosts *cloud.Hosts
}

// Workloads are the connections to workload clusters, by the control plane (package workload).
type Workloads interface {
	// Ensure returns the connection with the kubeconfig, which is a new one if the kubeconfig is.
	Ensure(controlPlane client.ObjectKey, kubeconfig []byte) Connection
	// Known returns the connection if it was made with the kubeconfig that has the digest (package kubeconfig), or nil.
	Known(controlPlane client.ObjectKey, digest string) Connection
	Drop(controlPlane client.ObjectKey)
	// Source wakes the control planes whose workload cluster has changed.
	Source() source.Source
}

// Connection is the connection to one workload cluster.
type Connection interface {
	// List lists the Nodes that a watch keeps.
	List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error
	// Client reads and writes past these Nodes.
	Client() client.Client
	Health() workload.Health
	Version(question string) string
	ClockBehind() time.Duration
}

// Way is how far the way to a workload cluster leads in a pass.
type Way struct {
	Connection Connection      // or nil
	Health     workload.Health // how the API server reacts to the kubeconfig
	// UserManaged is the name of the kubeconfig Secret if it is user-managed.
	UserManaged string
	// Ends is when the client certificate in the kubeconfig ends, if a person has to see to that (credentials.go), or nil.
	Ends *metav1.Time

	expires time.Time // of the credentials in the stored kubeconfig, or zero
}

// Open reports whether the workload cluster can be reached, or is being connected to. That may be so although the Secret is not as it should
// be.
func (w Way) Open() bool { return w.Connection != nil && !w.Health.Failing() }

const (
	// kubeconfigExpired: like unauthorized or unreachable, and the credentials have expired.
	kubeconfigExpired workload.Health = "expired"
	// kubeconfigChanged: the Secret does not hold the kubeconfig that the provider fetched last, and no connection with that one is known. The API
	// server is not asked.
	kubeconfigChanged workload.Health = "changed"
)

// connect finds out how the API server reacts to the stored kubeconfig. If the Secret holds neither the provider's kubeconfig nor a
// user's, the server that it names is not asked. A connection that was made with the provider's kubeconfig goes on: the Secret may be gone, as
// in a namespace that is being deleted, or the management cluster may have refused to store it.
func (k *Kubeconfigs) connect(p *pass.Pass, stored storedKubeconfig) (w Way) {
	key := client.ObjectKeyFromObject(p.ControlPlane)
	if !stored.writtenByProvider(p.Record) && !kubeconfig.UserManaged(stored.Secret) {
		if w.Connection = k.Workloads.Known(key, p.Record.KubeconfigDigest); w.Connection == nil {
			return Way{Health: kubeconfigChanged}
		}
		w.Health = w.Connection.Health()
		return w
	}
	w.Connection = k.Workloads.Ensure(key, stored.content())
	w.Health = w.Connection.Health()
	config, err := kubeconfig.RESTConfig(stored.content())
	if err != nil {
		return w
	}
	w.Ends, w.expires = endsSoon(config.CertData, time.Now()), expiry(config)
	if w.Health.Failing() && w.Health != workload.Unusable && !w.expires.IsZero() && time.Now().After(w.expires) {
		w.Health = kubeconfigExpired
	}
	return w
}

// Reopen returns the way that the stored kubeconfig opens. Nothing is fetched.
func (k *Kubeconfigs) Reopen(ctx context.Context, p *pass.Pass) (Way, error) {
	stored, err := k.readKubeconfig(ctx, p)
	if err != nil {
		return Way{}, err
	}
	return k.connect(p, stored), nil
}

// ServerVersion returns the version of the API server. It is not done while the API server does not answer, or refuses the
// kubeconfig.
func (w Way) ServerVersion(p *pass.Pass) (version string, o outcome.Outcome) {
	switch {
	case w.Health.Failing():
		return "", w.refused(p)
	case w.Health == workload.Connecting:
		return "", connecting(p)
	}
	if version = w.Connection.Version(versionKey(p)); version == "" {
		return "", connecting(p)
	}
	return version, outcome.Outcome{}
}

// versionKey names the portal cluster and the upgrade that was the last operation, because its start and its end change the version. No
// other operation does.
func versionKey(p *pass.Pass) string {
	question := string(p.ControlPlane.UID) + " " + p.ControlPlane.Spec.ClusterID
	if p.Last.Is(operation.Upgrade) {
		question += fmt.Sprint(" ", p.Last.ID, p.Last.Result)
	}
	return question
}

// ConnectTime is how long connecting may take. An answer of the API server wakes the control plane before.
const ConnectTime = 5 * time.Second

// connecting is the outcome until the API server has answered.
func connecting(p *pass.Pass) outcome.Outcome {
	return outcome.WaitFor(ConnectTime, infrav1.ConnectionDownReason, "connecting to the API server at %s", p.Endpoint())
}

// refused returns the reason for which the connection fails. The kubeconfig is fetched again in the meantime.
func (w Way) refused(p *pass.Pass) outcome.Outcome {
	switch {
	case w.UserManaged != "":
		return w.refusedUserManaged(p)
	case w.Health == workload.Unauthorized:
		return outcome.WaitFor(Retry, infrav1.KubeconfigRefusedReason, "the API server at %s refuses the credentials of the stored "+
			"kubeconfig, and the portal returns no others. If this lasts, ask the portal's support for new credentials", p.Endpoint())
	case w.Health == workload.Untrusted:
		return outcome.WaitFor(Retry, infrav1.KubeconfigRefusedReason, "the certificate of the API server at %s does not match the stored "+
			"kubeconfig, and the portal returns no other. If this lasts, ask the portal's support", p.Endpoint())
	}
	return outcome.WaitFor(Retry, infrav1.ConnectionDownReason, "the API server at %s does not answer. The provider tries again. If this lasts, look at the cluster at the portal", p.Endpoint())
}

// endpointOf reads host and port of the API server from a kubeconfig. Its errors contain nothing from the kubeconfig.
func endpointOf(config []byte) (clusterv1.APIEndpoint, error) {
	none := clusterv1.APIEndpoint{}
	parsed, err := kubeconfig.RESTConfig(config)
	if err != nil {
		return none, err
	}
	server, err := url.Parse(parsed.Host)
	if err != nil {
		return none, errors.New("its server is not an https URL")
	}
	port, err := strconv.ParseUint(cmp.Or(server.Port(), "443"), 10, 16)
	if err != nil || port == 0 {
		return none, errors.New("the port of its server is invalid")
	}
	host := server.Hostname()
	if ip := net.ParseIP(host); ip != nil {
		host = ip.String()
	}
	return clusterv1.APIEndpoint{Host: host, Port: int32(port)}, nil
}
