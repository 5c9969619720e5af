// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"os"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"
)

// rights are the rules of a ClusterRole that is bound in the whole cluster.
type rights []rbacv1.PolicyRule

// readRights reads the provider's own role.
func readRights() (rights, error) {
	content, err := os.ReadFile("../../config/rbac/role.yaml")
	if err != nil {
		return nil, err
	}
	role := rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(content, &role); err != nil {
		return nil, err
	}
	return role.Rules, nil
}

func (r rights) allow(info *apirequest.RequestInfo) bool {
	resource, group := info.Resource, info.APIGroup
	if info.Subresource != "" {
		resource += "/" + info.Subresource
	}
	if group == coreGroup {
		group = ""
	}
	return slices.ContainsFunc(r, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Verbs, info.Verb) && slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) &&
			(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, info.Name))
	})
}

func errNoRule(info *apirequest.RequestInfo) error {
	return fmt.Errorf("no rule allows to %s %s/%s", info.Verb, info.Resource, info.Subresource)
}
