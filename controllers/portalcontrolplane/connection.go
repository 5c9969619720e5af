// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/kubeconfig"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
	"github.com/capportal/cluster-api-provider-portal/controllers/workload"
)

// Workloads are the connections to workload clusters, by the control plane (package workload).
type Workloads interface {
	// Ensure returns the connection with the kubeconfig, which is a new one if the kubeconfig is.
	Ensure(controlPlane client.ObjectKey, kubeconfig []byte) Workload
	Drop(controlPlane client.ObjectKey)
	// Source wakes the control planes whose workload cluster has changed.
	Source() source.Source
}

// Workload is the connection to one workload cluster.
type Workload interface {
	lister // of the Nodes that a watch keeps
	// Client reads and writes past these Nodes.
	Client() client.Client
	Access() workload.Access
	Version(question string) string
	ClockBehind() time.Duration
}

const (
	// accessExpired: like unauthorized or unreachable, and the credentials have expired.
	accessExpired workload.Access = "expired"
	// accessChanged: the Secret does not hold the kubeconfig that the provider stored last. The API server is not asked.
	accessChanged workload.Access = "changed"
)

// connect finds out how the API server reacts to the stored kubeconfig. If the Secret holds neither the provider's kubeconfig nor a
// user's, no server is asked.
func (r *Reconciler) connect(s *scope, stored storedKubeconfig) {
	if !stored.writtenByProvider(s.Record) && !kubeconfig.UserManaged(stored.Secret) {
		s.access = accessChanged
		return
	}
	s.workload = r.Workloads.Ensure(client.ObjectKeyFromObject(s.ControlPlane), stored.content())
	s.access = s.workload.Access()
	if !s.access.Failing() || s.access == workload.Unusable {
		return
	}
	if config, err := kubeconfig.RESTConfig(stored.content()); err == nil {
		if expires := expiry(config); !expires.IsZero() && time.Now().After(expires) {
			s.access = accessExpired
		}
	}
}

// reconcileConnection makes sure that the workload cluster can be read. During a short outage, a condition that is True stays so:
// a manager that starts has no connection yet.
func (r *Reconciler) reconcileConnection(ctx context.Context, s *scope) outcome.Outcome {
	connected := conditions.IsTrue(s.ControlPlane, infrav1.ConnectedCondition)
	return r.memory(s).outage.Tolerate(connected, infrav1.ConnectionDownReason, r.readWorkload(ctx, s))
}

// readWorkload reads Nodes and version of the workload cluster.
func (r *Reconciler) readWorkload(ctx context.Context, s *scope) outcome.Outcome {
	switch {
	case !s.done(infrav1.KubeconfigReadyCondition):
		return outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the kubeconfig: see condition KubeconfigReady")
	case s.access.Failing():
		return s.refusedAccess()
	case s.access == workload.Connecting:
		return s.connecting()
	}
	if s.serverVersion = s.workload.Version(s.versionKey()); s.serverVersion == "" {
		return s.connecting()
	}
	return s.readCachedNodes(ctx)
}

// versionKey names the portal cluster and the upgrade that was the last operation, because its start and its end change the version. No
// other operation does.
func (s *scope) versionKey() string {
	question := string(s.ControlPlane.UID) + " " + s.ControlPlane.Spec.ClusterID
	if s.Last.Is(operation.Upgrade) {
		question += fmt.Sprint(" ", s.Last.ID, s.Last.Result)
	}
	return question
}

// connectTime is how long connecting may take. An answer of the API server wakes the control plane before.
const connectTime = 5 * time.Second

// connecting is the outcome until the API server has answered.
func (s *scope) connecting() outcome.Outcome {
	return outcome.WaitFor(connectTime, infrav1.ConnectionDownReason, "connecting to the API server at %s", s.endpoint())
}

// blockedByConnection is the outcome of the steps that need a connection. Their conditions stay as they are if the connection's
// does.
func (s *scope) blockedByConnection() outcome.Outcome {
	if s.outcomes[infrav1.ConnectedCondition].Kind == outcome.Retry {
		return outcome.RetryAfter(connectTime)
	}
	return outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the workload cluster: see condition Connected")
}

// refusedAccess returns the reason for which the connection fails. The kubeconfig is fetched again in the meantime.
func (s *scope) refusedAccess() outcome.Outcome {
	switch {
	case s.userManaged != "":
		return s.refusedUserManaged()
	case s.access == workload.Unauthorized:
		return outcome.WaitFor(connectionRetry, infrav1.KubeconfigRefusedReason, "the API server at %s refuses the credentials of the stored "+
			"kubeconfig, and the portal returns no others. If this lasts, ask the portal's support for new credentials", s.endpoint())
	case s.access == workload.Untrusted:
		return outcome.WaitFor(connectionRetry, infrav1.KubeconfigRefusedReason, "the certificate of the API server at %s does not match the stored "+
			"kubeconfig, and the portal returns no other. If this lasts, ask the portal's support", s.endpoint())
	}
	return outcome.WaitFor(connectionRetry, infrav1.ConnectionDownReason, "the API server at %s does not answer. The provider tries again. If this lasts, look at the cluster at the portal", s.endpoint())
}

func (s *scope) endpoint() string { return s.ControlPlane.Spec.ControlPlaneEndpoint.String() }

// annotationsOf returns the annotations of the Node that a plan depends on.
func annotationsOf(n *corev1.Node) map[string]string {
	all := map[string]string{}
	for _, key := range []string{
		infrav1.DrainStartedAnnotation, infrav1.DrainedAnnotation, infrav1.RemediatedAnnotation, infrav1.ScaleDownDisabledAnnotation,
		infrav1.DrainRulesAnnotation, scaleDownDisabled, clusterv1.OwnerNameAnnotation,
	} {
		if value, found := n.Annotations[key]; found {
			all[key] = value
		}
	}
	return all
}
