// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// Reader reads the kubeconfig Secrets of Clusters with a PortalControlPlane for Cluster API's ClusterCache, which would use every
// field of a kubeconfig.
type Reader struct {
	// Client reads Secrets, Clusters and PortalControlPlanes.
	Client client.Reader
	// Live reads PortalControlPlanes past the cache: the ClusterCache may connect right after a digest has changed.
	Live client.Reader
}

var _ client.Reader = Reader{}

// Get reads a kubeconfig Secret, and reduces its content to its minimal form.
func (r Reader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	stored, ok := obj.(*corev1.Secret)
	clusterName, found := strings.CutSuffix(key.Name, "-"+string(secret.Kubeconfig))
	if !ok || !found {
		return fmt.Errorf("%s is not a kubeconfig Secret", key)
	}
	if err := r.Client.Get(ctx, key, stored, opts...); err != nil {
		return err
	}
	content, err := r.content(ctx, client.ObjectKey{Namespace: key.Namespace, Name: clusterName}, stored)
	if err != nil {
		stored.Data = nil
		return fmt.Errorf("kubeconfig Secret %s is not used: %w", key, err)
	}
	stored.Data = map[string][]byte{secret.KubeconfigDataName: content}
	return nil
}

func (r Reader) content(ctx context.Context, key client.ObjectKey, stored *corev1.Secret) ([]byte, error) {
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, key, cluster); err != nil {
		return nil, err
	}
	controlPlane := client.ObjectKey{Namespace: key.Namespace, Name: cluster.Spec.ControlPlaneRef.Name}
	if content, err := fromOwner(ctx, r.Client, controlPlane, stored); err == nil {
		return content, nil
	}
	return fromOwner(ctx, r.Live, controlPlane, stored)
}

// fromOwner returns the kubeconfig in the Secret if the PortalControlPlane's record has its digest, or if it is user-managed.
func fromOwner(ctx context.Context, reader client.Reader, key client.ObjectKey, stored *corev1.Secret) ([]byte, error) {
	controlPlane := &infrav1.PortalControlPlane{}
	if err := reader.Get(ctx, key, controlPlane); err != nil {
		return nil, err
	}
	record, err := operation.LoadRecord(controlPlane)
	if err != nil {
		return nil, err
	}
	return fromSecret(stored, record.KubeconfigDigest)
}

// List refuses: only single kubeconfigs are read.
func (Reader) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("kubeconfig Secrets are not listed")
}
