// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// UpgradeStyle is how an upgrade treats each node.
type UpgradeStyle string

// The upgrade styles.
const (
	UpgradeInPlace  UpgradeStyle = "in-place" // the node stays and its kubelet becomes newer
	UpgradeRecreate UpgradeStyle = "recreate" // a new machine under the same name
	UpgradeReplace  UpgradeStyle = "replace"  // a new machine under a new name comes when the old one goes
	UpgradeSurge    UpgradeStyle = "surge"    // a new machine under a new name comes before the old one goes
)

var upgradeStyles = []UpgradeStyle{UpgradeInPlace, UpgradeRecreate, UpgradeReplace, UpgradeSurge}

type upgradeBody struct {
	KubernetesVersionID string `json:"kubernetesVersionId" portal:"required"`
}

// upgradeCluster answers POST /kubernetes-clusters/{cluster_id}/upgrade.
func (p *Portal) upgradeCluster(c *call) (answer, *refusal) {
	var body upgradeBody
	if err := c.decode(&body); err != nil {
		return answer{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	cl, err := p.clusterOf(c)
	if err != nil {
		return answer{}, err
	}
	to, err := p.versionByID(body.KubernetesVersionID)
	if err != nil {
		return answer{}, err
	}
	if err := p.checkUpgrade(cl, to.SemanticVersion); err != nil {
		return answer{}, err
	}
	faults, nodes := c.faults, p.toUpgrade(cl, to.SemanticVersion)
	redundant := p.opts.Traits.RedundantFails && cl.Version == to.SemanticVersion
	lasts := p.opts.Durations.Upgrade
	if each := p.opts.Traits.NodeUpgrade; each > 0 {
		lasts = each * time.Duration(len(nodes))
	}
	return p.operate(c, cl, ClusterUpgrading, cl.Version+" → "+to.SemanticVersion, jobSpec{
		kind: JobUpgradeCluster, takes: lasts,
		work: func(ctx context.Context, takes time.Duration) (any, error) {
			complete, err := p.upgradeNodes(ctx, cl, nodes, upgrade{to.SemanticVersion, takes, faults})
			if complete {
				p.mu.Lock()
				cl.Version, cl.VersionID = to.SemanticVersion, to.ID
				p.mu.Unlock()
			}
			if err == nil && redundant {
				err = errRedundant
			}
			p.settle(cl, faults, cmp.Or(err, faults.failLate()))
			return p.jobResult(cl), err
		},
	})
}

// checkUpgrade refuses versions to which the cluster cannot move. Lower ones are refused, which is our choice. The specification forbids
// neither the present version, which is a job with nothing to do, nor that minors are skipped.
func (p *Portal) checkUpgrade(cl *cluster, to string) *refusal {
	from, _ := parseVersion(cl.Version) // of a version on offer
	next, _ := parseVersion(to)
	steps := p.opts.Traits.UpgradesByStep
	switch {
	case lower(to, cl.serverVersion):
		return invalid("kubernetesVersionId", "the cluster runs %s: it cannot go back to %s", cl.serverVersion, to).as(http.StatusUnprocessableEntity)
	case steps && to == cl.Version:
		return invalid("kubernetesVersionId", "the cluster runs %s already", to).as(http.StatusUnprocessableEntity)
	case steps && (next[0] != from[0] || next[1] > from[1]+1):
		return invalid("kubernetesVersionId", "the cluster runs %s: %s skips a minor version", cl.Version, to).as(http.StatusUnprocessableEntity)
	}
	return nil
}

// toUpgrade returns the nodes of which an upgrade takes one at a time: control nodes first, then workers (Kubernetes endpoints 2). Callers
// hold mu.
func (p *Portal) toUpgrade(cl *cluster, version string) []*node {
	nodes := append(cl.controls(), cl.workers()...)
	if p.opts.Traits.UpgradesRestart {
		return nodes
	}
	return slices.DeleteFunc(nodes, func(n *node) bool { return n.Version == version })
}

// upgrade is a job's work on nodes.
type upgrade struct {
	version string
	takes   time.Duration // all of them together, or one
	faults  matchedFaults
}

// upgradeNodes goes through the nodes. The API server follows with the first control node, since kubelets must not be newer than it. It
// reports whether it got to all.
func (p *Portal) upgradeNodes(ctx context.Context, cl *cluster, todo []*node, u upgrade) (complete bool, err error) {
	if len(todo) == 0 {
		err := p.applyNodes(ctx, cl, u.takes)
		return err == nil, err
	}
	u.takes /= time.Duration(len(todo))
	share, began, limit := u.faults.nodesDone(len(todo)), time.Now(), p.opts.Traits.UpgradeLimit
	for i, n := range todo[:share] {
		if limit > 0 && time.Since(began) >= limit {
			return false, &jobError{Code: CodeInternalError, Message: fmt.Sprintf("the upgrade timed out after %s, with %d of %d nodes", limit, i, len(todo))}
		}
		if err := p.upgradeDrained(ctx, cl, n, u); err != nil {
			return false, err
		}
	}
	if share < len(todo) && u.faults.leavesCordoned() {
		return false, p.cordon(ctx, cl, todo[share].Name, true)
	}
	return share == len(todo), nil
}

// upgradeDrained drains a node, if the portal does, and upgrades it. If the drain fails, the node stays cordoned, with its old version.
func (p *Portal) upgradeDrained(ctx context.Context, cl *cluster, n *node, u upgrade) error {
	drainTime := p.drainTime(u.faults)
	if drainTime > 0 {
		if err := p.drainNode(ctx, cl, n, drainTime); err != nil {
			return err
		}
	}
	p.mu.Lock()
	cl.serverVersion = u.version
	p.mu.Unlock()
	if err := p.upgradeNode(ctx, cl, n, u); err != nil || drainTime == 0 {
		return err
	}
	return p.cordon(ctx, cl, n.Name, false)
}

func (p *Portal) upgradeNode(ctx context.Context, cl *cluster, n *node, u upgrade) error {
	style, takes := u.faults.upgradeStyle(p.opts.UpgradeStyle), u.takes
	p.mu.Lock()
	if style == UpgradeInPlace {
		before := n.Version
		n.Version = u.version
		p.mu.Unlock()
		err := p.applyNodes(ctx, cl, takes)
		if err == nil {
			p.record(LogEntry{Object: "node", ID: n.Name, Account: cl.Account, From: before, To: u.version, Detail: cl.ID})
		}
		return err
	}
	name := n.Name
	if style != UpgradeRecreate {
		name = p.nodeName(cl, n.ControlPlane)
	}
	p.addNodeNamed(cl, name, n.ControlPlane).Version = u.version
	if style == UpgradeSurge {
		p.mu.Unlock()
		takes /= 2
		if err := p.applyNodes(ctx, cl, takes); err != nil {
			return err
		}
		p.mu.Lock()
	}
	n.leaving, n.up = true, false
	p.mu.Unlock()
	return p.applyNodes(ctx, cl, takes)
}
