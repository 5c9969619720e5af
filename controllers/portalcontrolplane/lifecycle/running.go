// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util"

	"github.com/capportal/cluster-api-provider-portal/controllers/shared/operation"
)

// Running is what shows which version a portal cluster runs.
type Running struct {
	*operation.Record               // Version is what the whole cluster has reached, Size how many workers the portal runs
	Server            string        // the version of the API server
	Nodes             []corev1.Node // the workers
}

// Digest differs when the version of the API server, or a worker or its version, does.
func (r Running) Digest() uint64 {
	hash := fnv.New64a()
	_, _ = io.WriteString(hash, r.Server)
	for _, n := range r.Nodes {
		_, _ = fmt.Fprintf(hash, " %s %s", n.UID, n.Status.NodeInfo.KubeletVersion)
	}
	return hash.Sum64()
}

// digest is Digest in an annotation.
func (r Running) digest() string { return strconv.FormatUint(r.Digest(), 36) }

// progress describes how many workers run the version, as their kubelets report it. Without a cloud controller, the Node objects of replaced
// machines stay, so the size is the total.
func (r Running) progress(version string) string {
	total, upgraded := r.Size, 0
	for _, n := range r.Nodes {
		if util.IsNodeReady(&n) && r.hasReached(n.Status.NodeInfo.KubeletVersion, version) {
			upgraded++
		}
	}
	if total < 0 {
		total = len(r.Nodes)
	}
	return fmt.Sprintf("%d of %d workers run %s", upgraded, total, version)
}

// compareWith compares the version of the cluster with the wanted version. It returns 1 if the API server is newer, 0 if the
// whole cluster has reached the wanted version, and -1 if an upgrade is needed. If only the API server runs the wanted version,
// the workers may still be behind. Another build always needs an upgrade. The record decides which build the cluster has, because
// an API server that never shows the installed build must not cause another upgrade.
func (r Running) compareWith(wanted string) int {
	if c := compareVersions(r.reached(), wanted); c != 0 {
		return c
	}
	if !SameBuild(r.Version, wanted) || build(r.Version) == "" && !SameBuild(r.Server, wanted) {
		return -1
	}
	return min(0, compareVersions(r.Version, wanted))
}

// reached is the version of the API server or, if that is the recorded release with a vendor's suffix, the recorded one.
func (r Running) reached() string {
	if SameRelease(r.Version, r.Server) {
		return r.Version
	}
	return r.Server
}

// Shown is the recorded version or, if the API server shows another build of that release, the API server's.
func (r Running) Shown() string {
	if SameRelease(r.Version, r.Server) && !SameBuild(r.Version, r.Server) {
		return "v" + strings.TrimPrefix(r.Server, "v")
	}
	return r.Version
}

// hidesSuffix reports whether the wanted version has a suffix, and all workers exist and have reported the same version without any, like the API
// server. Core waits until a kubelet reports the version of its Machine.
func (r Running) hidesSuffix(wanted string) bool {
	hides := func(version string) bool { return SameRelease(version, wanted) && suffix(version) == "" }
	shown := slices.ContainsFunc(r.Nodes, func(n corev1.Node) bool { return !hides(n.Status.NodeInfo.KubeletVersion) })
	return suffix(wanted) != "" && hides(r.Server) && len(r.Nodes) > 0 && len(r.Nodes) >= r.Size && !shown
}

// suffix returns what follows the three numbers of a version, or "".
func suffix(version string) string {
	if i := strings.IndexAny(version, "-+"); i >= 0 {
		return version[i:]
	}
	return ""
}

// hasReached reports whether a component with the running version has reached the wanted one. A vendor's suffix makes no
// difference, unless the cluster comes from another version of the same release. If it comes from another build, a component that
// shows no build has not reached the wanted one.
func (r Running) hasReached(running, wanted string) bool {
	if !SameRelease(r.Version, wanted) {
		return SameRelease(running, wanted)
	}
	return same(running, wanted) && (build(running) != "" || SameBuild(r.Version, wanted))
}

// runs reports whether the API server or a worker runs the version, and whether all do. Without a cloud controller, the
// Node objects of replaced machines stay, NotReady and with the old version. So it is enough if as many Nodes as the size are
// Ready and run it, and no Ready one runs another.
func (r Running) runs(version string) (some, all bool) {
	server := r.hasReached(r.Server, version)
	some, all = server, server
	upgraded, left := 0, 0
	for _, n := range r.Nodes {
		runs, ready := r.hasReached(n.Status.NodeInfo.KubeletVersion, version), util.IsNodeReady(&n)
		some, all = some || runs, all && (runs || !ready)
		if runs && ready {
			upgraded++
		} else if !runs {
			left++
		}
	}
	return some, all && (left == 0 || r.Size >= 0 && upgraded >= r.Size)
}

// Equivalent returns the running version in the user's spelling if both mean the same, otherwise with a leading v.
func Equivalent(wanted, running string) string {
	if same(wanted, running) {
		return wanted
	}
	return "v" + strings.TrimPrefix(running, "v")
}

// same reports whether two versions are the same, as far as they name a build.
func same(a, b string) bool { return compareVersions(a, b) == 0 && SameBuild(a, b) }

// SameBuild reports whether two versions of a release have the same build, or one of them leaves it open.
func SameBuild(a, b string) bool { return build(a) == "" || build(b) == "" || build(a) == build(b) }

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

// SameRelease reports whether two versions are equal except for their suffixes.
func SameRelease(a, b string) bool {
	x, errX := semver.ParseTolerant(a)
	y, errY := semver.ParseTolerant(b)
	return errX == nil && errY == nil && x.FinalizeVersion() == y.FinalizeVersion()
}
