// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
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
				p.record(Entry{Object: "cluster", ID: cl.ID, Account: cl.Account, To: "left running", Detail: err.Error()})
			}
		})
	}
	wg.Wait()
}

// kubeconfig of a cluster. One that exists in the books only has a well-formed file that leads nowhere.
func (p *Portal) kubeconfig(ctx context.Context, cl *cluster) (string, error) {
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
	if cl.standIn == "" {
		cl.standIn = fmt.Sprintf(standInKubeconfig, ca, cl.ID, cl.Name, secret(32))
	}
	return cl.standIn, nil
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
