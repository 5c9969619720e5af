// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// try sends a merge patch as a dry run.
func (s *story) try(o client.Object, patch string) error {
	o, _ = o.DeepCopyObject().(client.Object)
	return s.Box.Client.Patch(s.Context(), o, client.RawPatch("application/merge-patch+json", []byte(patch)), client.DryRunAll)
}
