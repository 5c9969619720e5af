// SPDX-License-Identifier: Apache-2.0

package world

import (
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

var (
	namedCluster = regexp.MustCompile(`created cluster "([^"]+)"`)
	annotate     = regexp.MustCompile(regexp.QuoteMeta(infrav1.DecisionAnnotation) + `=([^ ."]+)`)
)

// Attend does what the condition asks a person to do if the provider cannot know whether the portal has created the cluster: it looks at the portal, and
// names the cluster that is there or allows a retry. It reports whether it did something.
func (w *World) Attend() bool {
	w.Helper()
	cp := &infrav1.PortalControlPlane{}
	if !w.Get(key, cp) || cp.Spec.ClusterID != "" || conditions.GetReason(cp, infrav1.ProvisionedCondition) != infrav1.OutcomeUnknownReason {
		return false
	}
	message := conditions.GetMessage(cp, infrav1.ProvisionedCondition)
	named, decision := namedCluster.FindStringSubmatch(message), annotate.FindStringSubmatch(message)
	if named == nil || decision == nil || cp.Annotations[infrav1.DecisionAnnotation] == decision[1] {
		return false
	}
	clusters := w.Portal.Clusters()
	i := slices.IndexFunc(clusters, func(c emulator.Cluster) bool { return c.Name == named[1] })
	Edit(w, key, cp, func(cp *infrav1.PortalControlPlane) {
		if i >= 0 {
			cp.Spec.ClusterID = clusters[i].ID
		} else {
			metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, strings.TrimSpace(decision[1]))
		}
	})
	w.note("a person resolves the creation of %s: exists %t", named[1], i >= 0)
	return true
}
