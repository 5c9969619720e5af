// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// clusterName is a DNS label (RFC 1123), since nodes are named after their cluster. It may begin with a digit: the specification does not
// forbid that.
var clusterName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// maxControlNodes is as many members as etcd advises at most. The specification has no upper bound, and advises 3.
const maxControlNodes = 7

// checkCreate refuses parameters that cannot make a cluster, in the order of the specification's table. Callers hold mu.
func (p *Portal) checkCreate(account string, body *createBody) (Version, *refusal) {
	if !clusterName.MatchString(body.Name) {
		return Version{}, invalid("name", "a cluster's name has at most 63 lower-case letters, digits and dashes, and neither begins nor ends with a dash")
	}
	if err := oneOf("zoneId", body.ZoneID, p.opts.Zones); err != nil {
		return Version{}, err
	}
	version, err := p.versionByID(body.KubernetesVersionID)
	if err != nil {
		return version, err
	}
	if err := oneOf("serviceOfferingId", body.ServiceOfferingID, p.opts.ServiceOfferings); err != nil {
		return version, err
	}
	if err := p.checkSize(body.Size); err != nil {
		return version, err
	}
	if body.ControlNodes < 1 {
		return version, invalid("controlNodes", "a cluster has at least one control node")
	}
	if body.ControlNodes > maxControlNodes {
		return version, invalid("controlNodes", "a cluster has at most %d control nodes", maxControlNodes).as(http.StatusUnprocessableEntity)
	}
	if err := p.checkPlace(account, body); err != nil {
		return version, err
	}
	if err := oneOf("sshKeyPair", body.SSHKeyPair, p.opts.SSHKeyPairs); err != nil {
		return version, err
	}
	owned := 0
	for _, cl := range p.clusters {
		if cl.Account == account {
			owned++
		}
	}
	if p.opts.MaxClusters > 0 && owned >= p.opts.MaxClusters {
		return version, refuse(CodeQuotaExceeded, "the account may have %d clusters", p.opts.MaxClusters)
	}
	return version, nil
}

// checkPlace refuses networks that are not there, belong to another VPC, or are too small. Callers hold mu.
func (p *Portal) checkPlace(account string, body *createBody) *refusal {
	if _, err := p.vpcByID(account, body.VPCID); err != nil {
		return err
	}
	if body.NetworkID == "" {
		return nil
	}
	network, err := p.networkByID(account, body.NetworkID)
	if err != nil {
		return err
	}
	if network.VPCID != "" && network.VPCID != body.VPCID {
		return invalid("networkId", "network %s is in another VPC", network.ID).as(http.StatusUnprocessableEntity)
	}
	return p.checkRoom(network, nil, body.Size+body.ControlNodes, "networkId")
}

// checkSize refuses worker counts beyond the portal's bounds (specification, Limits).
func (p *Portal) checkSize(size int) *refusal {
	if size < 0 {
		return invalid("size", "size is a number of workers")
	}
	if size < p.opts.MinWorkers {
		return invalid("size", "a cluster has at least %d workers", p.opts.MinWorkers).as(http.StatusUnprocessableEntity)
	}
	if size > p.opts.MaxWorkers {
		over := refuse(CodeQuotaExceeded, "a cluster may have at most %d workers; more on request", p.opts.MaxWorkers)
		over.field = "size"
		return over
	}
	return nil
}

// oneOf refuses a value that is not in a list. An empty list allows all values.
func oneOf(field, value string, known []string) *refusal {
	if len(known) == 0 || slices.Contains(known, value) {
		return nil
	}
	return invalid(field, "there is no %s %q, only %s", field, value, strings.Join(known, ", "))
}
