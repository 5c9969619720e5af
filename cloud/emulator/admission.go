// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// clusterName is a DNS label (RFC 1123), since nodes are named after their cluster. It may begin with a digit: the specification does not
// forbid that.
var clusterName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// maxControlNodes is as many members as etcd advises at most. The specification has no upper bound, and advises 3.
const maxControlNodes = 7

// checkCreate refuses parameters that cannot make a cluster, in the order of the specification's table. Callers hold mu.
func (p *Portal) checkCreate(account string, body *createBody) (Version, *refusal) {
	if err := p.checkName(account, body.Name); err != nil {
		return Version{}, err
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
	if slices.Contains(p.opts.Traits.SmallOfferings, body.ServiceOfferingID) {
		return version, invalid("serviceOfferingId", "service offering %s is too small for version %s", body.ServiceOfferingID, version.SemanticVersion).as(http.StatusUnprocessableEntity)
	}
	if err := p.checkSize(body.Size, body.ControlNodes); err != nil {
		return version, err
	}
	if err := p.checkControlNodes(body); err != nil {
		return version, err
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

// checkName refuses names that are malformed, reserved or in use. Callers hold mu.
func (p *Portal) checkName(account, name string) *refusal {
	traits := p.opts.Traits
	same := func(cl *cluster) bool { return cl.Account == account && cl.Name == name }
	switch {
	case !clusterName.MatchString(name):
		return invalid("name", "a cluster's name has at most 63 lower-case letters, digits and dashes, and neither begins nor ends with a dash")
	case traits.ShortNames && (len(name) > maxShortName || name[0] < 'a'):
		return invalid("name", "a cluster's name begins with a letter and has at most %d characters", maxShortName)
	case time.Now().Before(p.reserved[account+"/"+name]):
		return refuse(CodeOperationNotAllowed, "the name %q of a deleted cluster is reserved for some minutes", name)
	case traits.UniqueNames && slices.ContainsFunc(p.clusters, same):
		late := refuse(CodeInternalError, "the cluster could not be created")
		late.late = duplicateTime
		return late
	}
	return nil
}

// checkControlNodes refuses numbers of control nodes that cannot be, or not in this zone.
func (p *Portal) checkControlNodes(body *createBody) *refusal {
	triple := p.opts.Traits.TripleZones
	switch n := body.ControlNodes; {
	case n < 1:
		return invalid("controlNodes", "a cluster has at least one control node")
	case n > maxControlNodes:
		return invalid("controlNodes", "a cluster has at most %d control nodes", maxControlNodes).as(http.StatusUnprocessableEntity)
	case len(triple) > 0 && n != 1 && (n != 3 || !slices.Contains(triple, body.ZoneID)):
		return invalid("controlNodes", "a cluster has one control node or, in %s, three", strings.Join(triple, ", ")).as(http.StatusUnprocessableEntity)
	}
	return nil
}

// checkPlace refuses networks that are not there, belong to another VPC, are in use, or are too small. Callers hold mu.
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
	uses := func(cl *cluster) bool { return cl.NetworkID == network.ID }
	if p.opts.Traits.NetworksForOne && slices.ContainsFunc(p.occupants(), uses) {
		return invalid("networkId", "network %s belongs to another cluster", network.ID).as(http.StatusUnprocessableEntity)
	}
	return p.checkRoom(network, nil, body.Size+body.ControlNodes, "networkId")
}

// checkSize refuses worker counts beyond the portal's bounds (specification, Limits).
func (p *Portal) checkSize(size, controlNodes int) *refusal {
	most := p.opts.MaxWorkers
	if p.opts.Traits.LimitsAllNodes {
		most -= controlNodes
	}
	if size < 0 {
		return invalid("size", "size is a number of workers")
	}
	if size < p.opts.MinWorkers {
		return invalid("size", "a cluster has at least %d workers", p.opts.MinWorkers).as(http.StatusUnprocessableEntity)
	}
	if size > most {
		over := refuse(CodeQuotaExceeded, "a cluster may have at most %d workers; more on request", most)
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
