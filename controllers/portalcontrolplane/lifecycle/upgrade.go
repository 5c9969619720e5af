// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"strings"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// Upgrade is an upgrade that is about to be requested.
type Upgrade struct {
	op      *operation.Operation
	version string // its id at the portal
}

// NextUpgrade returns the upgrade to spec.version if it is due, or nil and what the version of the portal cluster waits for. The portal cluster is
// upgraded until all of it runs spec.version. draining names what is being drained for a scale-down, which comes first.
func (k *Clusters) NextUpgrade(ctx context.Context, p *pass.Pass, running Running, draining string) (*Upgrade, outcome.Outcome) {
	if p.Op().Is(operation.Upgrade) {
		if !p.Op().Lost() {
			return nil, upgradeRuns(running, 0, p.Op())
		}
		if o := settleUpgrade(ctx, p, running); !o.IsDone() {
			return nil, o
		}
	}
	if err := recordVersion(ctx, p, running); err != nil {
		return nil, outcome.Fail(err)
	}
	wanted := p.ControlPlane.Spec.Version
	if c := running.compareWith(wanted); c >= 0 {
		return nil, upToDate(running, wanted, c)
	}
	switch {
	case p.Op() != nil && !p.Op().Is(operation.Upgrade):
		return nil, outcome.WaitFor(0, infrav1.WaitingForOperationReason, "the upgrade to %s waits for the portal to finish the %s", wanted, p.Op())
	case p.BeingDeleted():
		return nil, outcome.BlockedBy(infrav1.DeletingReason, "the Cluster is being deleted, so it is not upgraded")
	case draining != "":
		return nil, outcome.WaitFor(0, infrav1.WaitingForOperationReason,
			"the upgrade to %s waits for the scale-down for which %s is being drained", wanted, draining)
	case !p.Infrastructure.IsDone():
		return nil, p.Infrastructure
	}
	version, o := k.Offered(ctx, p, running, wanted)
	if !o.IsDone() {
		return nil, o
	}
	u := &Upgrade{op: operation.New(operation.Upgrade, wanted), version: version.ID}
	u.op.Attempt = version.ID + " "
	if o, refused := p.Refused(u.op); refused {
		return nil, upgradeOutcome(p, running, o)
	}
	if lost := p.Op(); lost.Lost() { // the portal may have cordoned nodes by now
		u.op.Before, u.op.Digest, u.op.Obstacles = lost.Before, lost.Digest, lost.Obstacles
	} else {
		u.op.Before, u.op.Digest = snapshot(running.Nodes, p.Last), running.digest()
	}
	return u, outcome.Outcome{}
}

// upToDate is done if the portal cluster runs the wanted version, and not a later one (c > 0).
func upToDate(running Running, wanted string, c int) outcome.Outcome {
	if c > 0 {
		shown := Equivalent(wanted, running.reached())
		return outcome.StallFor(0, infrav1.VersionNotOfferedReason,
			"the cluster runs %s, and the portal does not downgrade. Set spec.version to %s or a later version", shown, shown)
	}
	if shown := running.Shown(); !SameBuild(shown, wanted) {
		return outcome.StallFor(0, infrav1.VersionNotOfferedReason,
			"the portal was asked for %s, but the API server runs %s. Set spec.version to %s, or ask the portal's support", wanted, shown, shown)
	}
	if running.hidesSuffix(wanted) {
		reported := "v" + strings.TrimPrefix(running.Server, "v")
		return outcome.StallFor(0, infrav1.VersionNotOfferedReason, "the API server and all workers report %s, without the suffix of %s. Core compares the "+
			"versions, so set spec.version and those of the MachineDeployments to %s", reported, wanted, reported)
	}
	return outcome.Outcome{}
}

// LostUpgradeTimeout is how long the provider waits for a sign of a lost upgrade.
const LostUpgradeTimeout = 3 * time.Minute

// versionPoll is how often the API server is asked for its version during a lost upgrade. Nodes are watched, the API server is not.
const versionPoll = time.Minute

// settleUpgrade ends a lost upgrade when the whole cluster runs its version. It is done when the upgrade has to be decided again:
// after LostUpgradeTimeout without a sign of it or, if a part of the cluster runs that version, when a job would count as stuck. If the
// portal has worked on nodes by then, the upgrade has failed, and is repeated like any other that has.
func settleUpgrade(ctx context.Context, p *pass.Pass, running Running) outcome.Outcome {
	lost := p.Op()
	some, all := running.runs(lost.Target)
	if all {
		return p.Runner().Finish(ctx, operation.Succeeded, "")
	}
	wait := LostUpgradeTimeout - time.Since(lost.Time.Time)
	if some {
		wait = p.Progress.StuckIn(lost)
	}
	if wait > 0 {
		return upgradeRuns(running, min(wait, versionPoll), lost)
	}
	if running.compareWith(p.ControlPlane.Spec.Version) >= 0 {
		return p.Runner().Finish(ctx, operation.Failed, "") // not wanted any more
	}
	if lost.Work == "" {
		return outcome.Outcome{} // sent again
	}
	if o := p.Runner().Finish(ctx, operation.Failed, ""); !o.IsDone() {
		return o
	}
	return outcome.RetryAfter(0) // sending it again may cost something
}

func upgradeRuns(running Running, after time.Duration, op *operation.Operation) outcome.Outcome {
	obstacles := ""
	if op.Obstacles != "" {
		obstacles = "Before the request, this could stop it: " + op.Obstacles + ". "
	}
	return outcome.WaitFor(after, infrav1.UpgradingReason, "the portal is upgrading the cluster from %s to %s: control nodes first, then workers one at a time. "+
		"%s%s", running.Shown(), op.Target, obstacles, running.progress(op.Target))
}

// SendUpgrade asks the portal for the upgrade.
func (k *Clusters) SendUpgrade(ctx context.Context, p *pass.Pass, running Running, u *Upgrade) outcome.Outcome {
	o, err := p.Start(ctx, u.op, func(ctx context.Context) (cloud.Job, error) {
		return p.Identity.Portal.UpgradeCluster(ctx, p.ControlPlane.Spec.ClusterID, u.version)
	})
	if refusesVersion(err) {
		k.refuseVersion(p, u.version)
	}
	if o.IsDone() && u.op.Obstacles != "" {
		p.Warn(infrav1.EventUpgradeObstacles, string(u.op.Type), "The portal accepted the %s. This may stop it: %s", u.op, u.op.Obstacles)
	}
	return upgradeOutcome(p, running, o)
}

// upgradeOutcome reports an upgrade that the portal has accepted, or may have, as one that runs.
func upgradeOutcome(p *pass.Pass, running Running, o outcome.Outcome) outcome.Outcome {
	if o.IsDone() || p.Op().Lost() && o.Kind != outcome.Failed {
		return upgradeRuns(running, o.RequeueAfter, p.Op())
	}
	return o
}

// recordVersion records the version that the whole cluster runs, as the API server shows it, while no operation is in flight. A
// vendor's suffix is not news. A recorded build is what the portal installed, so only the wanted build replaces it. After an upgrade that failed
// half way, an API server without workers does not show the version in which the portal adds workers, so the upgrade is repeated.
func recordVersion(ctx context.Context, p *pass.Pass, running Running) error {
	version, recorded := "v"+strings.TrimPrefix(running.Server, "v"), p.Record.Version
	_, all := running.runs(version)
	_, failed := p.Record.Failures[operation.Upgrade]
	all = all && (len(running.Nodes) > 0 || !failed)
	news := !SameRelease(recorded, version) || compareVersions(recorded, version) == 0 && build(version) != "" &&
		(build(recorded) == "" || build(version) == build(p.ControlPlane.Spec.Version))
	if p.Op() != nil || version == recorded || recorded != "" && !(all && news) {
		return nil
	}
	return p.Change(ctx, func(next *operation.State) { next.Record.Version = version })
}

const (
	// precheckKey is the backoff key of the look at the workload cluster.
	precheckKey = "precheck"
	// precheckAge is how long its result is used. A request may wait for the rate limit, and a user may remove what was found.
	precheckAge = 2 * time.Minute
)

// Precheck is done unless the user wants the upgrade to wait until nothing is found that may stop it. look returns what may stop it, as the workload
// cluster shows it. A request that is sent again was checked before.
func (u *Upgrade) Precheck(ctx context.Context, p *pass.Pass, look func(context.Context) []string) outcome.Outcome {
	if p.Op().Lost() {
		return outcome.Outcome{}
	}
	seen, known := p.Backoff.Recall(precheckKey, u.op.Target)
	if !known {
		seen = p.Backoff.Remember(precheckKey, u.op.Target, outcome.WaitFor(precheckAge, "", "%s", strings.Join(look(ctx), "; ")))
	}
	u.op.Obstacles = seen.Message
	if seen.Message == "" || p.ControlPlane.Spec.UpgradePrecheck != infrav1.UpgradePrecheckHold {
		return outcome.Outcome{}
	}
	return outcome.StallFor(seen.RequeueAfter, infrav1.UpgradeHeldReason, "the %s is held, because this may stop it: %s. Correct it, or set "+
		"spec.upgradePrecheck to Warn", u.op, seen.Message)
}
