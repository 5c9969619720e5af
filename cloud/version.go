// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
)

// KubernetesVersion is a version that the portal offers.
type KubernetesVersion struct {
	ID              string
	SemanticVersion string // with or without a leading "v"
	State           string // the specification does not show its values
}

// KubernetesVersions lists the versions for creation and upgrade.
func (c *Client) KubernetesVersions(ctx context.Context) ([]KubernetesVersion, error) {
	request, a, err := c.get(ctx, routeVersions, "")
	if err != nil {
		return nil, err
	}
	return decodeList(request, a, "versions", readVersion)
}

func readVersion(raw json.RawMessage) (KubernetesVersion, bool) {
	var v struct {
		ID              jsonText `json:"id"`
		SemanticVersion jsonText `json:"semanticVersion"`
		State           jsonText `json:"state"`
	}
	err := json.Unmarshal(raw, &v)
	version := KubernetesVersion{
		ID:              string(v.ID),
		SemanticVersion: clean(string(v.SemanticVersion), maxName, nil),
		State:           clean(string(v.State), maxName, nil),
	}
	return version, err == nil && v.ID != ""
}
