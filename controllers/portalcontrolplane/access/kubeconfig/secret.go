// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

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
