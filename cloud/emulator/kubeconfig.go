// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// applyWorkload makes a cluster so, where there are real ones.
func (p *Portal) applyWorkload(ctx context.Context, want Workload) ([]Removal, error) {
	if p.opts.Workloads == nil {
		return nil, nil
	}
	return p.opts.Workloads.Apply(ctx, want)
}

func (p *Portal) deleteWorkload(ctx context.Context, id string) error {
	if p.opts.Workloads == nil {
		return nil
	}
	return p.opts.Workloads.Delete(ctx, id)
}

// deleteWorkloads stops what the clusters of a closed portal still run.
func (p *Portal) deleteWorkloads() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for _, cl := range p.Clusters() {
		wg.Go(func() {
			if err := p.deleteWorkload(ctx, cl.ID); err != nil {
				p.record(LogEntry{Object: "cluster", ID: cl.ID, Account: cl.Account, To: "left running", Detail: err.Error()})
			}
		})
	}
	wg.Wait()
}

// kubeconfig returns the kubeconfig of a cluster: the stored one, or the present one.
func (p *Portal) kubeconfig(ctx context.Context, cl *cluster) (string, error) {
	if p.opts.Traits.KubeconfigOnce {
		return p.storeKubeconfig(ctx, cl)
	}
	if stored := p.storedKubeconfig(cl); stored != "" {
		return stored, nil
	}
	return p.newKubeconfig(ctx, cl)
}

func (p *Portal) storedKubeconfig(cl *cluster) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cl.stored
}

// storeKubeconfig has the portal return the kubeconfig of this moment from now on, unless one is stored. It returns the stored one.
func (p *Portal) storeKubeconfig(ctx context.Context, cl *cluster) (string, error) {
	if stored := p.storedKubeconfig(cl); stored != "" {
		return stored, nil
	}
	content, err := p.newKubeconfig(ctx, cl)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	orElse(&cl.stored, content) // another request may have stored one
	return cl.stored, nil
}

// newKubeconfig returns a kubeconfig of a cluster. Without Kubernetes servers, it is well formed, but its host does not exist.
func (p *Portal) newKubeconfig(ctx context.Context, cl *cluster) (string, error) {
	if p.opts.Workloads != nil {
		content, err := p.opts.Workloads.Kubeconfig(ctx, cl.ID)
		if err == nil && len(content) == 0 {
			err = errors.New("the kubeconfig is empty")
		}
		return string(content), err
	}
	ca := base64.StdEncoding.EncodeToString(p.CAPEM())
	p.mu.Lock()
	defer p.mu.Unlock()
	if cl.standIn == "" || p.opts.KubeconfigLifetime > 0 {
		cl.standIn = fmt.Sprintf(standInKubeconfig, ca, cl.host(), cl.Name, p.standInToken())
	}
	return cl.standIn, nil
}

// host is the name of an API server that does not exist. It is another one after each move.
func (cl *cluster) host() string {
	if cl.moves == 0 {
		return cl.ID
	}
	return fmt.Sprintf("%s-%d", cl.ID, cl.moves)
}

// standInToken is a token that says when it expires, if the portal's do.
func (p *Portal) standInToken() string {
	if p.opts.KubeconfigLifetime == 0 {
		return secret(32)
	}
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	return part(`{"alg":"none"}`) + "." + part(fmt.Sprintf(`{"exp":%d}`, time.Now().Add(p.opts.KubeconfigLifetime).Unix())) + "." + part(secret(32))
}

// Rotation selects the parts of a running cluster's access that the portal changes.
type Rotation struct {
	// Credentials: kubeconfigs that were handed out before get 401.
	Credentials bool `json:"credentials,omitempty"`
	// Endpoint: the API server listens on another port, and nothing listens on the old one any more.
	Endpoint bool `json:"endpoint,omitempty"`
	// Authority: the API server has a certificate of a new authority, which old kubeconfigs do not trust.
	Authority bool `json:"authority,omitempty"`
}

// String names what is changed.
func (r Rotation) String() string {
	var all []string
	for name, changed := range map[string]bool{"credentials": r.Credentials, "endpoint": r.Endpoint, "authority": r.Authority} {
		if changed {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// Rotate changes how a running cluster is reached. It returns when the kubeconfig that the portal hands out from then on works. The
// specification has no request for it: a person asks the portal's support, or the portal does it by itself.
func (p *Portal) Rotate(ctx context.Context, clusterID string, what Rotation) error {
	p.mu.Lock()
	i := slices.IndexFunc(p.clusters, func(cl *cluster) bool { return cl.ID == clusterID && cl.servedOnce })
	if i < 0 || what == (Rotation{}) {
		p.mu.Unlock()
		return fmt.Errorf("rotate %q of cluster %s: no such cluster runs, or nothing is to be rotated", what, clusterID)
	}
	cl := p.clusters[i]
	cl.standIn, cl.stored = "", ""
	if what.Endpoint {
		cl.moves++
	}
	p.record(LogEntry{Object: "cluster", ID: cl.ID, Account: cl.Account, To: "rotated", Detail: what.String()})
	p.mu.Unlock()
	if p.opts.Workloads == nil {
		return nil
	}
	rotator, ok := p.opts.Workloads.(Rotator)
	if !ok {
		return fmt.Errorf("rotate %s of cluster %s: these workload clusters cannot", what, clusterID)
	}
	return rotator.Rotate(ctx, clusterID, what)
}

// standInKubeconfig takes the CA, the cluster's id and name, and a token. The host can never exist (RFC 6761).
const standInKubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: %[3]s
  cluster:
    certificate-authority-data: %[1]s
    server: https://%[2]s.portal.invalid:6443
users:
- name: %[3]s-admin
  user:
    token: %[4]s
contexts:
- name: %[3]s-admin@%[3]s
  context:
    cluster: %[3]s
    user: %[3]s-admin
current-context: %[3]s-admin@%[3]s
`
