// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"

	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/pass"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// Offered finds the version in the list that the portal offers. The specification does not define the state of an entry, so any
// state may be usable. If the portal refuses an entry, the next request names another entry of the same version.
func (k *Clusters) Offered(ctx context.Context, p *pass.Pass, running Running, wanted string) (cloud.KubernetesVersion, outcome.Outcome) {
	versions, o := k.versions(ctx, p)
	if !o.IsDone() {
		return cloud.KubernetesVersion{}, o
	}
	refused := func(v cloud.KubernetesVersion) bool {
		_, found := k.Answers.Get(refusedVersion{p.Identity.Version, v.ID})
		return found
	}
	best := candidates(versions, wanted)
	if compareVersions(p.Record.Version, wanted) == 0 && SameRelease(running.Server, wanted) {
		// The cluster runs another build of the release. An entry that leaves the build open may not change it.
		best = slices.DeleteFunc(best, func(v cloud.KubernetesVersion) bool { return build(v.SemanticVersion) != build(wanted) })
	}
	if len(best) > 0 {
		return best[max(0, slices.IndexFunc(best, func(v cloud.KubernetesVersion) bool { return !refused(v) }))], outcome.Outcome{}
	}
	names := namesFrom(slices.DeleteFunc(slices.Clone(versions), refused), running.reached())
	if len(names) == 0 {
		return cloud.KubernetesVersion{}, outcome.StallFor(offersAge, infrav1.VersionNotOfferedReason,
			"the portal does not offer %s, nor any version from %s on. Set spec.version to a version that it offers", wanted, cmp.Or(running.reached(), wanted))
	}
	return cloud.KubernetesVersion{}, outcome.StallFor(offersAge, infrav1.VersionNotOfferedReason,
		"the portal does not offer %s. Set spec.version to one of: %s", wanted, strings.Join(names, ", "))
}

// candidates returns the entries that are the wanted version, the best first: build metadata and leading v match, build metadata matches,
// the entry or the wanted version leaves it open. Equally good ones keep the portal's order.
func candidates(versions []cloud.KubernetesVersion, wanted string) []cloud.KubernetesVersion {
	entries := slices.DeleteFunc(slices.Clone(versions), func(v cloud.KubernetesVersion) bool {
		return !same(v.SemanticVersion, wanted)
	})
	distance := func(v cloud.KubernetesVersion) int {
		switch {
		case v.SemanticVersion == wanted:
			return 0
		case strings.TrimPrefix(v.SemanticVersion, "v") == strings.TrimPrefix(wanted, "v"):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(entries, func(a, b cloud.KubernetesVersion) int { return distance(a) - distance(b) })
	return entries
}

// namesFrom returns the versions that a cluster of the running version can be set to, in order. If running is empty, it returns
// all. A version whose state says that it is disabled is not proposed.
func namesFrom(versions []cloud.KubernetesVersion, running string) []string {
	var names []string
	for _, v := range versions {
		if compareVersions(v.SemanticVersion, running) >= 0 && !strings.EqualFold(v.State, "disabled") {
			names = append(names, "v"+strings.TrimPrefix(v.SemanticVersion, "v"))
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(compareVersions(a, b), strings.Compare(a, b)) })
	return slices.Compact(names)
}

// refusesVersion reports whether the portal refused the request because of the version's id.
func refusesVersion(err error) bool {
	var refusal *cloud.Error
	return cloud.IsInvalid(err) && errors.As(err, &refusal) && refusal.Field == "kubernetesVersionId"
}

const (
	// offersAge is how long a list of versions is used.
	offersAge = 2 * time.Minute
	// refusedAge is how long a refusal is remembered. If it were shorter than the longest pause of an operation's backoff, requests
	// would alternate between entries that the portal refuses, and none of them would back off.
	refusedAge = time.Hour
)

// refusedVersion is a version id that the portal has refused to an identity.
type refusedVersion struct{ identity, id string }

// refuseVersion remembers that the portal refused the id to this identity.
func (k *Clusters) refuseVersion(p *pass.Pass, id string) {
	k.Answers.Set(refusedVersion{p.Identity.Version, id}, true, refusedAge)
}

// versions returns the list of versions that the portal offers.
func (k *Clusters) versions(ctx context.Context, p *pass.Pass) (all []cloud.KubernetesVersion, o outcome.Outcome) {
	list := func() ([]cloud.KubernetesVersion, outcome.Outcome) {
		versions, err := p.Identity.Portal.KubernetesVersions(ctx)
		if err != nil {
			return nil, outcome.FromPortalError(err).Prefix("list Kubernetes versions")
		}
		return versions, outcome.Outcome{}
	}
	o = p.Backoff.Do("versions", p.Identity.Version, func() (o outcome.Outcome) {
		all, o = outcome.Ask(k.Answers, outcome.Question{Portal: p.Identity.Portal, What: "versions"}, offersAge, list)
		return o
	})
	return all, o
}
