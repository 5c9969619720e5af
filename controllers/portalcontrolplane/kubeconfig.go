// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

const (
	// notRunningRetry is how often the kubeconfig of a cluster that does not run yet is asked for.
	notRunningRetry = 15 * time.Second
	// connectionRetry is how often an API server that does not answer is asked again.
	connectionRetry = 15 * time.Second
	// refetchAfter is how old a stored kubeconfig that does not work must be to be fetched again: its token may have
	// expired. Asking at every pass would flood the account.
	refetchAfter = 5 * time.Minute
)

// fetchedAnnotation of the kubeconfig Secret says when it was fetched from the portal.
const fetchedAnnotation = "infrastructure.cluster.x-k8s.io/fetched-at"

// reconcileKubeconfig keeps the kubeconfig Secret (CAPI contract, Cluster kubeconfig management) and the endpoint. A
// kubeconfig that is there is only fetched again when it no longer works.
func (r *Reconciler) reconcileKubeconfig(ctx context.Context, s *scope) outcome.Outcome {
	if !s.done(infrav1.ProvisionedCondition) {
		return outcome.BlockedBy(infrav1.WaitingForPortalClusterReason, "see condition Provisioned")
	}
	stored := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.cluster.Namespace, Name: secret.Name(s.cluster.Name, secret.Kubeconfig)}
	err := r.Client.Get(ctx, key, stored)
	if client.IgnoreNotFound(err) != nil {
		return outcome.Fail(fmt.Errorf("read kubeconfig Secret: %w", err))
	}
	missing := apierrors.IsNotFound(err)
	if !missing {
		if err := r.restoreKubeconfigOwner(ctx, s, stored); err != nil {
			return outcome.Fail(err)
		}
	}
	if !missing && s.controlPlane.Spec.ControlPlaneEndpoint.IsValid() && !r.expired(ctx, s, stored) {
		return outcome.DoneBecause(infrav1.KubeconfigStoredReason, "")
	}
	o := r.fetchKubeconfig(ctx, s, key, stored, missing)
	if !o.IsDone() && !missing && s.controlPlane.Spec.ControlPlaneEndpoint.IsValid() {
		return outcome.Outcome{Reason: infrav1.KubeconfigStoredReason, After: o.After} // the old one may still do
	}
	return o
}

// expired tells whether a stored kubeconfig does not work and is old enough to be fetched again.
func (r *Reconciler) expired(ctx context.Context, s *scope, stored *corev1.Secret) bool {
	at, err := time.Parse(time.RFC3339, stored.Annotations[fetchedAnnotation])
	if err != nil || time.Since(at) < refetchAfter {
		return false
	}
	health := r.ClusterCache.GetHealthCheckingState(ctx, s.clusterKey())
	return health.ConsecutiveFailures > 0 && time.Since(health.LastProbeSuccessTime) > refetchAfter
}

func (r *Reconciler) fetchKubeconfig(ctx context.Context, s *scope, key client.ObjectKey, stored *corev1.Secret, missing bool) outcome.Outcome {
	if !s.infrastructure.IsDone() {
		return s.infrastructure
	}
	backoffKey, attempt := s.flow()+"/kubeconfig", s.controlPlane.Spec.ClusterID+" "+s.identity.Version
	if refused, found := r.memory.Backoff.Recall(backoffKey, attempt); found {
		return refused
	}
	config, err := s.identity.Portal.Kubeconfig(ctx, s.controlPlane.Spec.ClusterID)
	if cloud.IsNotAllowed(err) || cloud.IsBusy(err) {
		return r.memory.Backoff.Refuse(backoffKey, attempt, outcome.WaitFor(notRunningRetry, infrav1.WaitingForPortalClusterReason,
			"the portal gives the kubeconfig when the cluster is Running; it is not yet"))
	}
	if err != nil {
		return r.memory.Backoff.Refuse(backoffKey, attempt, outcome.From(err).Prefix("fetch the kubeconfig of cluster %s", s.controlPlane.Spec.ClusterID))
	}
	endpoint, err := endpointOf(config)
	if err != nil {
		return r.memory.Backoff.Refuse(backoffKey, attempt, outcome.StallFor(0, infrav1.KubeconfigInvalidReason, "the portal's kubeconfig cannot be used: %v", err))
	}
	if err := r.storeKubeconfig(ctx, s, key, stored, missing, config); err != nil {
		return r.memory.Backoff.Refuse(backoffKey, attempt, outcome.StallFor(0, infrav1.KubeconfigInvalidReason, "Secret %s cannot be written: %v", key.Name, err))
	}
	if o := r.noteCluster(ctx, s, endpoint); !o.IsDone() {
		return r.memory.Backoff.Refuse(backoffKey, attempt, o)
	}
	r.memory.Backoff.Forget(backoffKey)
	return outcome.DoneBecause(infrav1.KubeconfigStoredReason, "")
}

// storeKubeconfig creates or updates the Secret as the contract wants it.
func (r *Reconciler) storeKubeconfig(ctx context.Context, s *scope, key client.ObjectKey, stored *corev1.Secret, missing bool, config []byte) error {
	if !missing && bytes.Equal(stored.Data[secret.KubeconfigDataName], config) {
		before := stored.DeepCopy()
		metav1.SetMetaDataAnnotation(&stored.ObjectMeta, fetchedAnnotation, time.Now().UTC().Format(time.RFC3339))
		return r.Client.Patch(ctx, stored, client.MergeFrom(before))
	}
	before := stored.DeepCopy()
	stored.Name, stored.Namespace = key.Name, key.Namespace
	metav1.SetMetaDataLabel(&stored.ObjectMeta, clusterv1.ClusterNameLabel, s.cluster.Name)
	metav1.SetMetaDataAnnotation(&stored.ObjectMeta, fetchedAnnotation, time.Now().UTC().Format(time.RFC3339))
	stored.Data = map[string][]byte{secret.KubeconfigDataName: config}
	if err := controllerutil.SetControllerReference(s.controlPlane, stored, r.Client.Scheme()); err != nil {
		return fmt.Errorf("kubeconfig Secret %s: %w", key.Name, err)
	}
	if missing {
		stored.Type = clusterv1.ClusterSecretType
		return r.Client.Create(ctx, stored)
	}
	return r.Client.Patch(ctx, stored, client.MergeFrom(before))
}

// noteCluster stores the endpoint, and of an adopted cluster the user that knows it.
func (r *Reconciler) noteCluster(ctx context.Context, s *scope, endpoint clusterv1.APIEndpoint) outcome.Outcome {
	userID := s.record.UserID
	if userID == "" {
		var err error
		if userID, err = s.identity.Portal.UserID(ctx); err != nil {
			return outcome.From(err)
		}
	}
	if s.controlPlane.Spec.ControlPlaneEndpoint == endpoint && s.record.UserID == userID {
		return outcome.Outcome{}
	}
	err := r.change(ctx, s, func() {
		s.controlPlane.Spec.ControlPlaneEndpoint = endpoint
		s.record.UserID = userID
		operation.PutRecord(s.controlPlane, s.record)
	})
	if err != nil {
		return outcome.Fail(err)
	}
	return outcome.Outcome{}
}

// endpointOf reads host and port of the API server from a kubeconfig. Nothing of its content gets into the errors.
func endpointOf(config []byte) (clusterv1.APIEndpoint, error) {
	none := clusterv1.APIEndpoint{}
	rest, err := clientcmd.RESTConfigFromKubeConfig(config)
	if err != nil {
		return none, errors.New("it is no kubeconfig with a current context")
	}
	if err := selfContained(rest); err != nil {
		return none, err
	}
	server, err := url.Parse(rest.Host)
	if err != nil || server.Scheme != "https" || server.Hostname() == "" {
		return none, errors.New("its server is no https URL")
	}
	port, err := strconv.ParseUint(cmp.Or(server.Port(), "443"), 10, 16)
	if err != nil || port == 0 {
		return none, errors.New("the port of its server is no port")
	}
	host := server.Hostname()
	if ip := net.ParseIP(host); ip != nil {
		host = ip.String()
	}
	return clusterv1.APIEndpoint{Host: host, Port: int32(port)}, nil
}

// selfContained refuses a kubeconfig that would have the manager, or Cluster API, read files or run commands of their
// own, or trust any server.
func selfContained(config *rest.Config) error {
	files := config.BearerTokenFile + config.CertFile + config.KeyFile + config.CAFile
	switch {
	case config.ExecProvider != nil || config.AuthProvider != nil || files != "":
		return errors.New("it refers to files or commands; certificates and tokens have to be in it")
	case config.Insecure:
		return errors.New("it switches the verification of the server's certificate off")
	}
	return nil
}
