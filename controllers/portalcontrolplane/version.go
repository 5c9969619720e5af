// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/blang/semver/v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/journal"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// reconcileVersion upgrades the portal cluster when spec.version is newer than what its API server runs.
func (r *Reconciler) reconcileVersion(ctx context.Context, s *scope) outcome.Outcome {
	if !s.done(infrav1.ConnectedCondition) {
		return outcome.BlockedBy(infrav1.WaitingForConnectionReason, "see condition Connected")
	}
	wanted := s.controlPlane.Spec.Version
	if s.op != nil && s.op.Type == journal.Upgrade {
		return outcome.WaitFor(0, infrav1.UpgradingReason, "the portal upgrades from %s to %s: control nodes first, then workers one at a time", s.record.Version, s.op.Target)
	}
	if err := r.noteVersion(ctx, s); err != nil {
		return outcome.Fail(err)
	}
	switch compareVersions(s.reached(), wanted) {
	case 1:
		return outcome.HoldFor(0, infrav1.DowngradeNotSupportedReason,
			"the cluster runs %s and the portal does not downgrade: set spec.version to %s or a later version", s.record.Version, s.record.Version)
	case 0:
		if s.record.FailedUpgrade != wanted {
			return outcome.DoneBecause(infrav1.VersionUpToDateReason, "")
		}
	}
	if s.op != nil {
		return outcome.WaitFor(0, infrav1.WaitingForOperationReason, "the upgrade to %s starts when the portal has finished to %s", wanted, s.op.Type)
	}
	if s.retiring() {
		return outcome.BlockedBy(infrav1.DeletingReason, "the Cluster is being deleted; nothing is upgraded")
	}
	if draining, err := r.draining(ctx, s); err != nil || draining != "" {
		if err != nil {
			return outcome.Fail(err)
		}
		return outcome.WaitFor(0, infrav1.WaitingForOperationReason,
			"the upgrade to %s starts when Machine %s, which is drained for a scale down, is gone", wanted, draining)
	}
	return r.upgrade(ctx, s, wanted)
}

// draining names a Machine whose Node is drained, or was, for a scale down: an upgrade would find out about that node's
// fate for it.
func (r *Reconciler) draining(ctx context.Context, s *scope) (string, error) {
	d, err := r.readDesired(ctx, r.Client, s)
	if err != nil {
		return "", err
	}
	for _, m := range d.machines {
		if !m.DeletionTimestamp.IsZero() && !metav1.HasAnnotation(m.ObjectMeta, infrav1.PreDrainHook) && metav1.HasAnnotation(m.ObjectMeta, infrav1.PreTerminateHook) {
			return m.Name, nil
		}
	}
	return "", nil
}

func (r *Reconciler) upgrade(ctx context.Context, s *scope, wanted string) outcome.Outcome {
	if !s.infrastructure.IsDone() {
		return s.infrastructure
	}
	version, o := r.offered(ctx, s, wanted)
	if !o.IsDone() {
		return o
	}
	op := journal.New(journal.Upgrade, wanted)
	o = r.start(ctx, s, op, func(ctx context.Context) (cloud.Job, error) {
		return s.identity.Portal.UpgradeCluster(ctx, s.controlPlane.Spec.ClusterID, version.ID)
	}, nil)
	if o.IsDone() {
		return outcome.WaitFor(0, infrav1.UpgradingReason, "the portal upgrades from %s to %s: control nodes first, then workers one at a time", s.record.Version, wanted).In(o.After)
	}
	return o.Prefix("upgrade to %s", wanted)
}

// noteVersion records the version that the whole cluster has reached, as spec.version writes it: only while nothing runs
// and no upgrade has failed half way, so that an upgrade that is under way does not count.
func (r *Reconciler) noteVersion(ctx context.Context, s *scope) error {
	if failed := s.record.FailedUpgrade; failed != "" && (failed != s.controlPlane.Spec.Version || s.allRun(failed)) {
		s.record.FailedUpgrade = "" // no longer wanted, or reached all the same
	}
	version := equivalent(s.controlPlane.Spec.Version, s.reached())
	if s.op != nil || s.record.FailedUpgrade != "" || s.record.Version == version {
		return nil
	}
	return r.change(ctx, s, func() {
		s.record.Version = version
		journal.PutRecord(s.controlPlane, s.record)
	})
}

// reached is the version that counts: what the API server runs or, where that is the same release with a vendor's suffix,
// what the portal was asked for.
func (s *scope) reached() string {
	asked, errA := semver.ParseTolerant(s.record.Version)
	running, errB := semver.ParseTolerant(s.running)
	if errA == nil && errB == nil && asked.FinalizeVersion() == running.FinalizeVersion() {
		return s.record.Version
	}
	return s.running
}

// allRun tells whether the API server and every worker run the version.
func (s *scope) allRun(version string) bool {
	return compareVersions(s.running, version) == 0 && !slices.ContainsFunc(s.nodes, func(n corev1.Node) bool {
		return compareVersions(n.Status.NodeInfo.KubeletVersion, version) != 0
	})
}

// equivalent returns the running version as the user writes it, where both mean the same; otherwise with a leading v.
func equivalent(wanted, running string) string {
	if compareVersions(wanted, running) == 0 {
		return wanted
	}
	return "v" + strings.TrimPrefix(running, "v")
}

// compareVersions compares without leading v and build metadata. What is no version at all is older than any.
func compareVersions(a, b string) int {
	x, errX := semver.ParseTolerant(a)
	y, errY := semver.ParseTolerant(b)
	switch {
	case errX != nil && errY != nil:
		return 0
	case errX != nil:
		return -1
	case errY != nil:
		return 1
	}
	return x.Compare(y)
}

// offered finds the version in what the portal offers. The meaning of its state is not shown in the specification: an
// unknown state is usable, the portal decides.
func (r *Reconciler) offered(ctx context.Context, s *scope, wanted string) (cloud.KubernetesVersion, outcome.Outcome) {
	versions, o := r.versions.list(ctx, s, &r.backoff)
	if !o.IsDone() {
		return cloud.KubernetesVersion{}, o
	}
	var names []string
	for _, v := range versions {
		if compareVersions(v.SemanticVersion, wanted) == 0 {
			return v, outcome.Outcome{}
		}
		names = append(names, "v"+strings.TrimPrefix(v.SemanticVersion, "v"))
	}
	slices.SortFunc(names, compareVersions)
	return cloud.KubernetesVersion{}, outcome.HoldFor(offersAge, infrav1.VersionNotOfferedReason,
		"the portal does not offer %s; set spec.version to one of: %s", wanted, strings.Join(names, ", "))
}

// offersAge is how long a list of versions is used.
const offersAge = 2 * time.Minute

// offers keeps the portal's list of versions for a while, for each client.
type offers struct {
	mu    sync.Mutex
	known map[*cloud.Client]offer
}

type offer struct {
	versions []cloud.KubernetesVersion
	at       time.Time
}

func (o *offers) list(ctx context.Context, s *scope, backoff *outcome.Backoff) ([]cloud.KubernetesVersion, outcome.Outcome) {
	o.mu.Lock()
	have, found := o.known[s.identity.Portal]
	o.mu.Unlock()
	if found && time.Since(have.at) < offersAge {
		return have.versions, outcome.Outcome{}
	}
	key := s.flow() + "/versions"
	if refused, found := backoff.Recall(key, s.identity.Version); found {
		return nil, refused
	}
	versions, err := s.identity.Portal.KubernetesVersions(ctx)
	if err != nil {
		return nil, backoff.Refuse(key, s.identity.Version, outcome.From(err).Prefix("list Kubernetes versions"))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for portal, old := range o.known {
		if time.Since(old.at) > offersAge {
			delete(o.known, portal)
		}
	}
	if o.known == nil {
		o.known = map[*cloud.Client]offer{}
	}
	o.known[s.identity.Portal] = offer{versions: versions, at: time.Now()}
	return versions, outcome.Outcome{}
}
