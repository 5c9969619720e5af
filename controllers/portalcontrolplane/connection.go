// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/kubeconfig"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// findAccess finds out how the API server reacts to the stored kubeconfig. The API server is asked only while the ClusterCache is
// not connected, or if its last probe failed. If the Secret holds neither the provider's kubeconfig nor a user's, no server is
// asked.
func (r *Reconciler) findAccess(ctx context.Context, s *scope, stored storedKubeconfig) {
	if !stored.writtenByProvider(s.record) && !kubeconfig.UserManaged(stored.Secret) {
		s.access = accessChanged
		return
	}
	last := &r.memory(s).probed
	health := r.ClusterCache.GetHealthCheckingState(ctx, s.clusterKey())
	_, err := r.ClusterCache.GetClient(ctx, s.clusterKey())
	if err == nil && health.ConsecutiveFailures == 0 {
		*last = probed{}
		return
	}
	s.access, s.accessSince = last.ask(ctx, stored.content(), r.Identities.Hosts)
	// On its own, the ClusterCache gives a connection up after 5 failed probes, and makes a new one up to 30 s later.
	if s.access == accessAnswering && time.Since(s.accessSince) >= connectTime && last.mayReconnect() {
		r.Reconnect(s.clusterKey())
	}
}

// reconcileConnection makes sure that the workload cluster can be read. During a short outage, a condition that is True stays so:
// a manager that starts has no connection yet.
func (r *Reconciler) reconcileConnection(ctx context.Context, s *scope) outcome.Outcome {
	connected := conditions.IsTrue(s.controlPlane, infrav1.ConnectedCondition)
	return r.memory(s).outage.Tolerate(connected, infrav1.ConnectionDownReason, r.connect(ctx, s))
}

// connect reads Nodes and version of the workload cluster, and watches its Nodes.
func (r *Reconciler) connect(ctx context.Context, s *scope) outcome.Outcome {
	if !s.done(infrav1.KubeconfigReadyCondition) {
		return outcome.BlockedBy(infrav1.WaitingForDependencyReason, "waiting for the kubeconfig: see condition KubeconfigReady")
	}
	if s.access.failing() {
		return s.refusedAccess()
	}
	workload, err := r.ClusterCache.GetClient(ctx, s.clusterKey())
	switch {
	case s.access != accessWorking || errors.Is(err, clustercache.ErrClusterNotConnected):
		return s.connecting()
	case err != nil:
		return outcome.Fail(err)
	}
	err = r.watchNodes(ctx, s)
	switch {
	case errors.Is(err, clustercache.ErrClusterNotConnected): // not any more
		return s.connecting()
	case err != nil:
		return outcome.Fail(fmt.Errorf("watch Nodes: %w", err))
	}
	if o := r.findVersion(ctx, s); !o.IsDone() {
		return o
	}
	if o := r.readCachedNodes(ctx, s, workload); !o.IsDone() {
		return o
	}
	s.workload = workload
	return outcome.DoneBecause(infrav1.ReadyReason, "")
}

// connectTime is how long the ClusterCache may take to connect before it is made to connect again. Connecting takes milliseconds,
// and an event wakes the control plane.
const connectTime = 5 * time.Second

// connecting is the outcome while the ClusterCache connects to an API server that answers.
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
	case s.access == accessUnauthorized:
		return outcome.WaitFor(connectionRetry, infrav1.KubeconfigRefusedReason, "the API server at %s refuses the credentials of the stored "+
			"kubeconfig, and the portal returns no others. If this lasts, ask the portal's support for new credentials", s.endpoint())
	case s.access == accessUntrusted:
		return outcome.WaitFor(connectionRetry, infrav1.KubeconfigRefusedReason, "the certificate of the API server at %s does not match the stored "+
			"kubeconfig, and the portal returns no other. If this lasts, ask the portal's support", s.endpoint())
	}
	return outcome.WaitFor(connectionRetry, infrav1.ConnectionDownReason, "the API server at %s does not answer. The provider tries again. If this lasts, look at the cluster at the portal", s.endpoint())
}

func (s *scope) endpoint() string { return s.controlPlane.Spec.ControlPlaneEndpoint.String() }

type nodePredicate = predicate.TypedPredicate[client.Object]

// nodeChanged admits only those changes of a Node that a plan depends on, not its heartbeats. spec.workerNodeSelector may use any
// label, and labels change rarely.
var nodeChanged nodePredicate = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*corev1.Node)
		after, ok2 := e.ObjectNew.(*corev1.Node)
		if !ok || !ok2 {
			return false
		}
		return before.Spec.ProviderID != after.Spec.ProviderID || before.Spec.Unschedulable != after.Spec.Unschedulable ||
			!slices.Equal(keptTaints(before), keptTaints(after)) ||
			!maps.Equal(before.Labels, after.Labels) || !maps.Equal(annotationsOf(before), annotationsOf(after)) ||
			before.Status.NodeInfo.KubeletVersion != after.Status.NodeInfo.KubeletVersion || !maps.Equal(conditionsOf(before), conditionsOf(after))
	},
}

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

// conditionsOf returns the status of each condition of the Node, without its heartbeat.
func conditionsOf(n *corev1.Node) map[corev1.NodeConditionType]corev1.ConditionStatus {
	all := map[corev1.NodeConditionType]corev1.ConditionStatus{}
	for _, c := range n.Status.Conditions {
		all[c.Type] = c.Status
	}
	return all
}
