// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Version of Kubernetes on offer.
type Version struct {
	ID              string // default: made up
	SemanticVersion string // such as v1.36.3
	State           string // default: Enabled. The specification shows no values
	Refused         bool   // it is listed, and nothing can be created with it or upgraded to it
}

// DefaultVersions are the last patch releases of three minors.
func DefaultVersions() []Version {
	return []Version{{SemanticVersion: "v1.34.9"}, {SemanticVersion: "v1.35.6"}, {SemanticVersion: "v1.36.3"}}
}

func (p *Portal) addVersions(versions []Version) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range versions {
		if _, err := parseVersion(v.SemanticVersion); err != nil {
			return err
		}
		if v.ID == "" {
			v.ID = p.newID("kv")
		}
		orElse(&v.State, "Enabled")
		p.versions = append(p.versions, v)
	}
	return nil
}

type wireVersion struct {
	ID              string `json:"id"`
	SemanticVersion string `json:"semanticVersion"`
	State           string `json:"state"`
}

// listVersions answers GET /kubernetes-versions.
func (p *Portal) listVersions(*call) (answer, *refusal) {
	out := make([]wireVersion, 0, len(p.versions))
	for _, v := range p.versions {
		out = append(out, wireVersion{ID: v.ID, SemanticVersion: p.opts.Shapes.semanticVersion(v.SemanticVersion), State: v.State})
	}
	return answer{status: http.StatusOK, body: p.opts.Shapes.list("versions", out)}, nil
}

// Versions on offer, with their ids.
func (p *Portal) Versions() []Version { return slices.Clone(p.versions) }

// versionByID finds what kubernetesVersionId names. Versions never change while the portal runs.
func (p *Portal) versionByID(id string) (Version, *refusal) {
	for _, v := range p.versions {
		if v.ID == id && v.Refused {
			return v, invalid("kubernetesVersionId", "Kubernetes version %s is %s", v.SemanticVersion, v.State).as(http.StatusUnprocessableEntity)
		}
		if v.ID == id {
			return v, nil
		}
	}
	return Version{}, invalid("kubernetesVersionId", "there is no Kubernetes version %q", id)
}

// parseVersion reads major, minor and patch, with or without v, build metadata or pre-release.
func parseVersion(version string) ([3]int, error) {
	var out [3]int
	core, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "+")
	core, _, _ = strings.Cut(core, "-")
	parts := strings.Split(core, ".")
	if len(parts) != len(out) {
		return out, fmt.Errorf("version %q: want vMAJOR.MINOR.PATCH", version)
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return out, fmt.Errorf("version %q: want vMAJOR.MINOR.PATCH", version)
		}
		out[i] = n
	}
	return out, nil
}

// lower reports whether a is an older version than b. Both must be well formed.
func lower(a, b string) bool {
	x, _ := parseVersion(a)
	y, _ := parseVersion(b)
	return slices.Compare(x[:], y[:]) < 0
}
