// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileVersion upgrades the portal cluster until all of it runs spec.version.
func (r *Reconciler) reconcileVersion(ctx context.Context, s *scope) outcome.Outcome {
	if !s.done(infrav1.ConnectedCondition) {
		return s.blockedByConnection()
	}
	if s.Op().Is(operation.Upgrade) {
		if !s.Op().Lost() {
			return s.upgradeRuns(0, s.Op().Target)
		}
		if o := r.settleUpgrade(ctx, s); !o.IsDone() {
			return o
		}
	}
	if err := r.recordVersion(ctx, s); err != nil {
		return outcome.Fail(err)
	}
	wanted := s.ControlPlane.Spec.Version
	switch s.compareWith(wanted) {
	case 1:
		running := equivalent(wanted, s.reachedVersion())
		return outcome.StallFor(0, infrav1.VersionNotOfferedReason,
			"the cluster runs %s, and the portal does not downgrade. Set spec.version to %s or a later version", running, running)
	case 0:
		if running := s.runningVersion(); !sameBuild(running, wanted) {
			return outcome.StallFor(0, infrav1.VersionNotOfferedReason,
				"the portal was asked for %s, but the API server runs %s. Set spec.version to %s, or ask the portal's support", wanted, running, running)
		}
		return outcome.Outcome{}
	}
	if s.Op() != nil && !s.Op().Is(operation.Upgrade) {
		return outcome.WaitFor(0, infrav1.WaitingForOperationReason, "the upgrade to %s waits for the portal to finish the %s", wanted, s.Op())
	}
	if s.BeingDeleted() {
		return outcome.BlockedBy(infrav1.DeletingReason, "the Cluster is being deleted, so it is not upgraded")
	}
	if draining := s.draining(); draining != "" {
		return outcome.WaitFor(0, infrav1.WaitingForOperationReason,
			"the upgrade to %s waits for the scale-down for which %s is being drained", wanted, draining)
	}
	return r.upgrade(ctx, s, wanted)
}

// compareWith compares the version of the cluster with the wanted version. It returns 1 if the API server is newer, 0 if the
// whole cluster has reached the wanted version, and -1 if an upgrade is needed. If only the API server runs the wanted version,
// the workers may still be behind. Another build always needs an upgrade. The record decides which build the cluster has, because
// an API server that never shows the installed build must not cause another upgrade.
func (s *scope) compareWith(wanted string) int {
	if c := compareVersions(s.reachedVersion(), wanted); c != 0 {
		return c
	}
	if !sameBuild(s.Record.Version, wanted) || build(s.Record.Version) == "" && !sameBuild(s.serverVersion, wanted) {
		return -1
	}
	return min(0, compareVersions(s.Record.Version, wanted))
}

// lostUpgradeTimeout is how long the provider waits for a sign of a lost upgrade.
const lostUpgradeTimeout = 3 * time.Minute

// versionPoll is how often the API server is asked for its version during a lost upgrade. Nodes are watched, the API server is not.
const versionPoll = time.Minute

// settleUpgrade ends a lost upgrade when the whole cluster runs its version. It is done when the upgrade has to be decided again:
// after lostUpgradeTimeout without a sign of it or, if a part of the cluster runs that version, when a job would count as stuck.
func (r *Reconciler) settleUpgrade(ctx context.Context, s *scope) outcome.Outcome {
	lost := s.Op()
	some, all := s.runsVersion(lost.Target)
	if all {
		return s.Runner().Finish(ctx, operation.Succeeded, "")
	}
	patience := lostUpgradeTimeout
	if some {
		patience = lost.StuckAfter()
	}
	if wait := patience - time.Since(lost.Time.Time); wait > 0 {
		return s.upgradeRuns(min(wait, versionPoll), lost.Target)
	}
	if s.compareWith(s.ControlPlane.Spec.Version) < 0 {
		return outcome.Outcome{} // sent again
	}
	return s.Runner().Finish(ctx, operation.Failed, "") // not wanted any more
}

func (s *scope) upgradeRuns(after time.Duration, to string) outcome.Outcome {
	return outcome.WaitFor(after, infrav1.UpgradingReason,
		"the portal is upgrading the cluster from %s to %s: control nodes first, then workers one at a time", s.runningVersion(), to)
}

// draining names a Machine or a Node that is being drained for a scale-down. An upgrade would have to settle that drain first,
// and drains are undone when the upgrade replaces the node. If the portal refuses the scale-down, the upgrade does not wait for
// it.
func (s *scope) draining() string {
	for _, m := range s.members.machines {
		if !m.DeletionTimestamp.IsZero() && !metav1.HasAnnotation(m.ObjectMeta, infrav1.PreDrainHook) && metav1.HasAnnotation(m.ObjectMeta, infrav1.PreTerminateHook) {
			return "Machine " + m.Name
		}
	}
	refused := s.Last.Is(operation.Scale) && s.Last.Result != operation.Succeeded
	for _, n := range s.nodes {
		drained := metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainedAnnotation)
		if metav1.HasAnnotation(n.ObjectMeta, infrav1.DrainStartedAnnotation) || drained && util.IsNodeReady(&n) && !refused {
			return "Node " + n.Name
		}
	}
	return ""
}

func (r *Reconciler) upgrade(ctx context.Context, s *scope, wanted string) (o outcome.Outcome) {
	defer func() { s.keepsPause = s.keepsPause || o.Kind == outcome.Retry }()
	if !s.Infrastructure.IsDone() {
		return s.Infrastructure
	}
	version, o := r.offered(ctx, s, wanted)
	if !o.IsDone() {
		return o
	}
	op := operation.New(operation.Upgrade, wanted)
	op.Nodes, op.Attempt = len(s.nodes), version.ID+" "
	o, refused := s.Refused(op)
	if !refused {
		if o := r.pausePool(ctx, s, wanted); !o.IsDone() {
			return o
		}
		var err error
		o, err = s.Start(ctx, op, func(ctx context.Context) (cloud.Job, error) {
			return s.Identity.Portal.UpgradeCluster(ctx, s.ControlPlane.Spec.ClusterID, version.ID)
		})
		if refusesVersion(err) {
			r.refuseVersion(s, version.ID)
		}
	}
	if o.IsDone() || s.Op().Lost() && o.Kind != outcome.Failed {
		return s.upgradeRuns(o.RequeueAfter, s.Op().Target)
	}
	return o
}

// recordVersion records the version that the whole cluster runs, as the API server shows it, while no operation is in flight. A
// vendor's suffix is not news. A recorded build is what the portal installed, so only the wanted build replaces it.
func (r *Reconciler) recordVersion(ctx context.Context, s *scope) error {
	version, recorded := "v"+strings.TrimPrefix(s.serverVersion, "v"), s.Record.Version
	_, all := s.runsVersion(version)
	news := !sameRelease(recorded, version) || compareVersions(recorded, version) == 0 && build(version) != "" &&
		(build(recorded) == "" || build(version) == build(s.ControlPlane.Spec.Version))
	if s.Op() != nil || version == recorded || recorded != "" && !(all && news) {
		return nil
	}
	return s.Change(ctx, func(next *operation.State) { next.Record.Version = version })
}

// reachedVersion is the version of the API server or, if that is the recorded release with a vendor's suffix, the recorded one.
func (s *scope) reachedVersion() string {
	if sameRelease(s.Record.Version, s.serverVersion) {
		return s.Record.Version
	}
	return s.serverVersion
}

// runningVersion is the recorded version or, if the API server shows another build of that release, the API server's.
func (s *scope) runningVersion() string {
	if sameRelease(s.Record.Version, s.serverVersion) && !sameBuild(s.Record.Version, s.serverVersion) {
		return "v" + strings.TrimPrefix(s.serverVersion, "v")
	}
	return s.Record.Version
}

// hasReached reports whether a component with the running version has reached the wanted one. A vendor's suffix makes no
// difference, unless the cluster comes from another version of the same release. If it comes from another build, a component that
// shows no build has not reached the wanted one.
func (s *scope) hasReached(running, wanted string) bool {
	if !sameRelease(s.Record.Version, wanted) {
		return sameRelease(running, wanted)
	}
	return same(running, wanted) && (build(running) != "" || sameBuild(s.Record.Version, wanted))
}

// runsVersion reports whether the API server or a worker runs the version, and whether all do. Without a cloud controller, the
// Node objects of replaced machines stay, NotReady and with the old version. So it is enough if as many Nodes as the size are
// Ready and run it, and no Ready one runs another.
func (s *scope) runsVersion(version string) (some, all bool) {
	server := s.hasReached(s.serverVersion, version)
	some, all = server, server
	upgraded, left := 0, 0
	for _, n := range s.nodes {
		runs, ready := s.hasReached(n.Status.NodeInfo.KubeletVersion, version), util.IsNodeReady(&n)
		some, all = some || runs, all && (runs || !ready)
		if runs && ready {
			upgraded++
		} else if !runs {
			left++
		}
	}
	return some, all && (left == 0 || s.Record.Size >= 0 && upgraded >= s.Record.Size)
}

// equivalent returns the running version in the user's spelling if both mean the same, otherwise with a leading v.
func equivalent(wanted, running string) string {
	if same(wanted, running) {
		return wanted
	}
	return "v" + strings.TrimPrefix(running, "v")
}

// same reports whether two versions are the same, as far as they name a build.
func same(a, b string) bool { return compareVersions(a, b) == 0 && sameBuild(a, b) }

// sameBuild reports whether two versions of a release have the same build, or one of them leaves it open.
func sameBuild(a, b string) bool { return build(a) == "" || build(b) == "" || build(a) == build(b) }

// build returns the build metadata of a version, or "".
func build(version string) string {
	_, after, _ := strings.Cut(version, "+")
	return after
}

// compareVersions compares versions without leading v and build metadata. An invalid version is older than any valid one.
func compareVersions(a, b string) int {
	x, _ := semver.ParseTolerant(a)
	y, _ := semver.ParseTolerant(b)
	return x.Compare(y)
}
