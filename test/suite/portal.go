// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
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

// PortalClusters returns the portal clusters of the account.
func (f *Fixture) PortalClusters() []emulator.Cluster {
	return slices.DeleteFunc(f.Box.Portal.Clusters(), func(c emulator.Cluster) bool { return !f.owns(c.Account) })
}

func (f *Fixture) owns(account string) bool { return f.User.Account == "" || f.User.Account == account }
