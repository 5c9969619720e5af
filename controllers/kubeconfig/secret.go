// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/secret"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// errNotOwn reports that a Secret holds neither the kubeconfig that the provider stored last nor one that a user has marked.
var errNotOwn = errors.New("it is neither the kubeconfig that the provider stored nor marked as user-managed")

// Digest identifies a kubeconfig in the record of a PortalControlPlane. Labels and owner references of a Secret do not prove who
// wrote it, because users of the namespace can write them too.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// UserManaged reports whether a user has marked the Secret as their own.
func UserManaged(s *corev1.Secret) bool {
	return s.Annotations[infrav1.UserManagedAnnotation] == "true"
}

// fromSecret returns the kubeconfig in a Secret in its minimal form, if the Secret is user-managed or has the digest.
func fromSecret(s *corev1.Secret, digest string) ([]byte, error) {
	content := s.Data[secret.KubeconfigDataName]
	if !UserManaged(s) && Digest(content) != digest {
		return nil, errNotOwn
	}
	return Minimal(content)
}
