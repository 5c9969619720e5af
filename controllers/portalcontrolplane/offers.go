// SPDX-License-Identifier: Apache-2.0

package portalcontrolplane

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/controllers/outcome"
)

// offered finds the version in the list that the portal offers. The specification does not define the state of an entry, so any
// state may be usable. If the portal refuses an entry, the next request names another entry of the same version.
func (r *Reconciler) offered(ctx context.Context, s *scope, wanted string) (cloud.KubernetesVersion, outcome.Outcome) {
	versions, o := r.offers.list(ctx, s, &r.memory.Backoff)
	if !o.IsDone() {
		return cloud.KubernetesVersion{}, o
	}
	if best := candidates(versions, wanted); len(best) > 0 {
		return r.offers.choose(best), outcome.Outcome{}
	}
	names := namesFrom(versions, s.reachedVersion())
	if len(names) == 0 {
		return cloud.KubernetesVersion{}, outcome.StallFor(offersAge, infrav1.VersionNotOfferedReason,
			"the portal does not offer %s, nor any version from %s on. Set spec.version to a version that it offers", wanted, cmp.Or(s.reachedVersion(), wanted))
	}
	return cloud.KubernetesVersion{}, outcome.StallFor(offersAge, infrav1.VersionNotOfferedReason,
		"the portal does not offer %s. Set spec.version to one of: %s", wanted, strings.Join(names, ", "))
}

// candidates returns the entries that are the wanted version, the best first: build metadata and leading v match, build metadata matches,
// the version alone matches. Equally good ones keep the portal's order.
func candidates(versions []cloud.KubernetesVersion, wanted string) []cloud.KubernetesVersion {
	same := slices.DeleteFunc(slices.Clone(versions), func(v cloud.KubernetesVersion) bool {
		return compareVersions(v.SemanticVersion, wanted) != 0
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
	slices.SortStableFunc(same, func(a, b cloud.KubernetesVersion) int { return distance(a) - distance(b) })
	return same
}

// namesFrom returns the versions that a cluster of the running version can be set to, in order. If running is empty, it returns
// all.
func namesFrom(versions []cloud.KubernetesVersion, running string) []string {
	var names []string
	for _, v := range versions {
		if compareVersions(v.SemanticVersion, running) >= 0 {
			names = append(names, "v"+strings.TrimPrefix(v.SemanticVersion, "v"))
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(compareVersions(a, b), strings.Compare(a, b)) })
	return slices.Compact(names)
}

// refusesVersion reports whether the portal refused the request because of the version's id, if the answer names a field.
func refusesVersion(err error) bool {
	var refusal *cloud.Error
	return cloud.IsInvalid(err) && errors.As(err, &refusal) && (refusal.Field == "" || refusal.Field == "kubernetesVersionId")
}

// offersAge is how long a list of versions is used.
const offersAge = 2 * time.Minute

// offers caches the portal's list of versions for each client, and remembers which of them it refused.
type offers struct {
	mu      sync.Mutex
	known   map[*cloud.Client]offer
	refused map[string]bool // ids
}

type offer struct {
	versions []cloud.KubernetesVersion
	at       time.Time
}

// refuse remembers that the portal refused the id until the manager stops. If ids were forgotten earlier, requests would
// alternate between entries that the portal refuses, and none of them would back off.
func (o *offers) refuse(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refused == nil {
		o.refused = map[string]bool{}
	}
	o.refused[id] = true
}

// choose returns the first entry that the portal has not refused, or the first one if it has refused all.
func (o *offers) choose(best []cloud.KubernetesVersion) cloud.KubernetesVersion {
	o.mu.Lock()
	defer o.mu.Unlock()
	return best[max(0, slices.IndexFunc(best, func(v cloud.KubernetesVersion) bool { return !o.refused[v.ID] }))]
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
		return nil, backoff.Refuse(key, s.identity.Version, outcome.FromPortalError(err).Prefix("list Kubernetes versions"))
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
