// SPDX-License-Identifier: Apache-2.0

package cloud

import "context"

// KubernetesVersion is a version that the portal offers.
type KubernetesVersion struct {
	ID              string
	SemanticVersion string // with or without a leading "v"
	State           string // the specification does not show its values
}

// KubernetesVersions lists the versions for creation and upgrade.
func (c *Client) KubernetesVersions(ctx context.Context) ([]KubernetesVersion, error) {
	return list(ctx, c, routeVersions, nil, "versions", func(r record) KubernetesVersion {
		return KubernetesVersion{
			ID: string(r.ID), SemanticVersion: clean(string(r.SemanticVersion), maxName, nil), State: clean(string(r.State), maxName, nil),
		}
	})
}
