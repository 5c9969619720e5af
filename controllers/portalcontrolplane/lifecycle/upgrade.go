// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// Before are the steps before the request for an upgrade, of rooms that know the workload cluster.
type Before struct {
	// Look returns what may stop the upgrade.
	Look func(context.Context) []string
	// Pause is done if nothing moves Machines during the upgrade.
	Pause func(context.Context) outcome.Outcome
}

// Upgrade upgrades the portal cluster until all of it runs spec.version. It waits for the drains of these Machines. The bool reports that the
// request is about to be sent.
func (k *Clusters) Upgrade(ctx context.Context, p *pass.Pass, running Running, machines []clusterv1.Machine, before Before) (o outcome.Outcome, starts bool) {
	if p.Op().Is(operation.Upgrade) {
		if !p.Op().Lost() {
			return upgradeRuns(running, 0, p.Op()), false
		}
		if o := settleUpgrade(ctx, p, running); !o.IsDone() {
			return o, false
		}
	}
	if err := recordVersion(ctx, p, running); err != nil {
		return outcome.Fail(err), false
	}
	wanted := p.ControlPlane.Spec.Version
	switch running.compareWith(wanted) {
	case 1:
		shown := Equivalent(wanted, running.reached())
		return outcome.StallFor(0, infrav1.VersionNotOfferedReason,
			"the cluster runs %s, and the portal does not downgrade. Set spec.version to %s or a later version", shown, shown), false
	case 0:
		if shown := running.Shown(); !SameBuild(shown, wanted) {
			return outcome.StallFor(0, infrav1.VersionNotOfferedReason,
				"the portal was asked for %s, but the API server runs %s. Set spec.version to %s, or ask the portal's support", wanted, shown, shown), false
		}
		if running.hidesSuffix(wanted) {
			reported := "v" + strings.TrimPrefix(running.Server, "v")
			return outcome.StallFor(0, infrav1.VersionNotOfferedReason, "the API server and all workers report %s, without the suffix of %s. Core compares the "+
				"versions, so set spec.version and those of the MachineDeployments to %s", reported, wanted, reported), false
		}
		return outcome.Outcome{}, false
	}
	if p.Op() != nil && !p.Op().Is(operation.Upgrade) {
		return outcome.WaitFor(0, infrav1.WaitingForOperationReason, "the upgrade to %s waits for the portal to finish the %s", wanted, p.Op()), false
	}
	if p.BeingDeleted() {
		return outcome.BlockedBy(infrav1.DeletingReason, "the Cluster is being deleted, so it is not upgraded"), false
	}
	if draining := Draining(p, running.Nodes, machines); draining != "" {
		return outcome.WaitFor(0, infrav1.WaitingForOperationReason,
			"the upgrade to %s waits for the scale-down for which %s is being drained", wanted, draining), false
	}
	o = k.upgrade(ctx, p, running, wanted, before)
	return o, o.Kind == outcome.Retry
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

// Draining names a Machine or a Node that is being drained for a scale-down. An upgrade would have to settle that drain first,
// and drains are undone when the upgrade replaces the node. If the portal refuses the scale-down, the upgrade does not wait for
// it.
func Draining(p *pass.Pass, nodes []corev1.Node, machines []clusterv1.Machine) string {
	for _, m := range machines {
		if !m.DeletionTimestamp.IsZero() && !metav1.HasAnnotation(m.ObjectMeta, infrav1.PreDrainHook) && metav1.HasAnnotation(m.ObjectMeta, infrav1.PreTerminateHook) {
			return "Machine " + m.Name
		}
	}
	_, failing := p.Record.Failures[operation.Scale]
	refused := failing || p.Last.Is(operation.Scale) && p.Last.Result != operation.Succeeded || p.Backoff.Stalls(string(operation.Scale))
	for _, n := range nodes {
		drained := metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainedAnnotation)
		if metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainStartedAnnotation) || drained && util.IsNodeReady(&n) && !refused {
			return "Node " + n.Name
		}
	}
	return ""
}

func (k *Clusters) upgrade(ctx context.Context, p *pass.Pass, running Running, wanted string, before Before) outcome.Outcome {
	if !p.Infrastructure.IsDone() {
		return p.Infrastructure
	}
	version, o := k.Offered(ctx, p, running, wanted)
	if !o.IsDone() {
		return o
	}
	op := operation.New(operation.Upgrade, wanted)
	op.Attempt = version.ID + " "
	o, refused := p.Refused(op)
	if !refused {
		if lost := p.Op(); lost.Lost() { // the portal may have cordoned nodes by now
			op.Before, op.Digest, op.Obstacles = lost.Before, lost.Digest, lost.Obstacles
		} else if op.Obstacles, o = precheck(ctx, p, op, before.Look); !o.IsDone() {
			return o
		} else {
			op.Before, op.Digest = snapshot(running.Nodes, p.Last), running.digest()
		}
		if o := before.Pause(ctx); !o.IsDone() {
			return o
		}
		var err error
		o, err = p.Start(ctx, op, func(ctx context.Context) (cloud.Job, error) {
			return p.Identity.Portal.UpgradeCluster(ctx, p.ControlPlane.Spec.ClusterID, version.ID)
		})
		if refusesVersion(err) {
			k.refuseVersion(p, version.ID)
		}
		if o.IsDone() && op.Obstacles != "" {
			p.Warn(infrav1.EventUpgradeObstacles, string(op.Type), "The portal accepted the %s. This may stop it: %s", op, op.Obstacles)
		}
	}
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

// precheck looks before an upgrade at what may stop it, and returns what it finds, or "". If the user wants that, the upgrade waits until nothing
// is found.
func precheck(ctx context.Context, p *pass.Pass, op *operation.Operation, look func(context.Context) []string) (string, outcome.Outcome) {
	seen, known := p.Backoff.Recall(precheckKey, op.Target)
	if !known {
		seen = p.Backoff.Remember(precheckKey, op.Target, outcome.WaitFor(precheckAge, "", "%s", strings.Join(look(ctx), "; ")))
	}
	if seen.Message == "" || p.ControlPlane.Spec.UpgradePrecheck != infrav1.UpgradePrecheckHold {
		return seen.Message, outcome.Outcome{}
	}
	return seen.Message, outcome.StallFor(seen.RequeueAfter, infrav1.UpgradeHeldReason, "the %s is held, because this may stop it: %s. Correct it, or set "+
		"spec.upgradePrecheck to Warn", op, seen.Message)
}
