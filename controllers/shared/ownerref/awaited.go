// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// linkTime is how long core may take to make itself the owner of a new object before the object reports that it has none. Core
// takes a second or two, or longer under load. Reporting earlier would cost one request for each object, and the report would be
// outdated at once.
const linkTime = 10 * time.Second

// Awaited returns how long to wait for the object's owner before the object is reconciled again, or 0.
func Awaited(obj metav1.Object, owned bool) time.Duration {
	if owned || obj.GetDeletionTimestamp() != nil {
		return 0
	}
	return min(linkTime, max(0, linkTime-time.Since(obj.GetCreationTimestamp().Time))) // the API server's clock may be ahead
}
