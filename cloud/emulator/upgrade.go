// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
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

// upgradeCluster answers POST /kubernetes-clusters/{cluster_id}/upgrade. Lower versions are refused, which is our choice. The same one
// is a job with nothing to do. Minors may be skipped, because the specification does not forbid it.
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
	if lower(to.SemanticVersion, cl.serverVersion) {
		return answer{}, invalid("kubernetesVersionId", "the cluster runs %s: it cannot go back to %s", cl.serverVersion, to.SemanticVersion).
			as(http.StatusUnprocessableEntity)
	}
	faults := c.faults
	return p.operate(c, cl, ClusterUpgrading, cl.Version+" → "+to.SemanticVersion, jobSpec{
		kind: JobUpgradeCluster, takes: p.opts.Durations.Upgrade,
		work: func(ctx context.Context, takes time.Duration) (any, error) {
			complete, err := p.upgradeNodes(ctx, cl, upgrade{to.SemanticVersion, takes, faults})
			if complete {
				p.mu.Lock()
				cl.Version, cl.VersionID = to.SemanticVersion, to.ID
				p.mu.Unlock()
			}
			p.settle(cl, faults, err != nil || faults.failLate() != nil)
			return p.jobResult(cl), err
		},
	})
}

// upgrade is a job's work on nodes.
type upgrade struct {
	version string
	takes   time.Duration // all of them together, or one
	faults  matchedFaults
}

// upgradeNodes goes through the nodes one at a time: control nodes first, then workers (Kubernetes endpoints 2). The
// API server follows with the first control node, since kubelets must not be newer than it. It reports whether it got to all.
func (p *Portal) upgradeNodes(ctx context.Context, cl *cluster, u upgrade) (complete bool, err error) {
	p.mu.Lock()
	todo := slices.DeleteFunc(append(cl.controls(), cl.workers()...), func(n *node) bool { return n.Version == u.version })
	p.mu.Unlock()
	if len(todo) == 0 {
		err := p.applyNodes(ctx, cl, u.takes)
		return err == nil, err
	}
	u.takes /= time.Duration(len(todo))
	share := u.faults.nodesDone(len(todo))
	for _, n := range todo[:share] {
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
	drainTime := u.faults.drainTime()
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
