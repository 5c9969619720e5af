// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// linkTime is how long core may take to make itself the owner of a new object before the object reports that it has none. Core takes a
// second or two, and more in a storm. A report of this moment would cost one request for each object, and is gone before a person reads it.
const linkTime = 10 * time.Second

// Awaited returns how long the object may still be without an owner. Then it is to be looked at again.
func Awaited(obj metav1.Object, owned bool) time.Duration {
	if owned || obj.GetDeletionTimestamp() != nil {
		return 0
	}
	return min(linkTime, max(0, linkTime-time.Since(obj.GetCreationTimestamp().Time))) // the API server's clock may be ahead
}
