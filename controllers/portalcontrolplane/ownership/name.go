// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// NameCluster generates a name for the portal cluster.
func NameCluster(p *pass.Pass, next *operation.State) {
	next.Record.Name = generateName(p.ControlPlane.Name)
	p.ControlPlane.Spec.ClusterName = next.Record.Name
}

// generateName returns a name that a person can recognize at the portal, and that was never used before.
func generateName(base string) string {
	return stem(base) + rand.String(operation.GeneratedLength)
}

const (
	longestName   = 63
	generatedFrom = "bcdfghjklmnpqrstvwxz2456789" // what rand.String draws from: no words come of it
)

// stem is the part of a generated name that comes from the PortalControlPlane's name.
func stem(base string) string {
	base = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, base)
	return strings.Trim(base[:min(len(base), longestName-operation.GeneratedLength-1)], "-") + "-"
}

// isGenerated reports whether the provider could have generated the name.
func isGenerated(base, name string) bool {
	random, ours := strings.CutPrefix(name, stem(base))
	return ours && len(random) == operation.GeneratedLength && strings.Trim(random, generatedFrom) == ""
}
