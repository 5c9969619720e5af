// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

// RequestLog returns the entries of the account in the portal's request log.
func (f *Fixture) RequestLog() []emulator.LogEntry {
	return slices.DeleteFunc(f.Box.Portal.RequestLog(), func(e emulator.LogEntry) bool { return !f.owns(e.Account) })
}

// Changes returns the requests of the account that change something at the portal, in order and without ids.
func (f *Fixture) Changes() (all []string) {
	for _, e := range f.RequestLog() {
		if e.IsChange() {
			parts := strings.Split(e.Route, "/")
			all = append(all, fmt.Sprintf("%s %s %d", e.Method, parts[len(parts)-1], e.Status))
		}
	}
	return all
}

// Decide makes the decision about the last operation of the control plane, as a person does.
func (f *Fixture) Decide(controlPlane *infrav1.PortalControlPlane, decision infrav1.Decision) {
	f.Helper()
	Change(f, controlPlane, func(cp *infrav1.PortalControlPlane) {
		state, err := operation.Load(cp)
		f.Expect(err).NotTo(HaveOccurred())
		metav1.SetMetaDataAnnotation(&cp.ObjectMeta, infrav1.DecisionAnnotation, decision.About(state.Last.ID))
	})
}

// PortalClusters returns the portal clusters of the account.
func (f *Fixture) PortalClusters() []emulator.Cluster {
	return slices.DeleteFunc(f.Box.Portal.Clusters(), func(c emulator.Cluster) bool { return !f.owns(c.Account) })
}

func (f *Fixture) owns(account string) bool { return f.User.Account == "" || f.User.Account == account }
