// SPDX-License-Identifier: Apache-2.0

package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// ledger is a Workloads that records its calls and takes some time for each.
type ledger struct {
	takes     time.Duration
	fails     error                                // of Apply
	removalOf func(emulator.Node) emulator.Removal // removal of a machine, or of only its Node object; may be nil

	mu      sync.Mutex
	applied []emulator.Workload
	deleted []string
}

func (l *ledger) Apply(ctx context.Context, w emulator.Workload) (removed []emulator.Removal, err error) {
	select {
	case <-time.After(l.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.removalOf != nil && len(l.applied) > 0 {
		for _, n := range l.applied[len(l.applied)-1].Nodes {
			stays := slices.ContainsFunc(w.Nodes, func(now emulator.Node) bool { return now.ID == n.ID && now.Gone == n.Gone })
			if !stays {
				removed = append(removed, l.removalOf(n))
			}
		}
	}
	l.applied = append(l.applied, w)
	return removed, l.fails
}

func (l *ledger) Kubeconfig(_ context.Context, id string) ([]byte, error) {
	if id == "" {
		return nil, errors.New("no id")
	}
	return []byte("kubeconfig of " + id), nil
}

func (l *ledger) Delete(_ context.Context, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deleted = append(l.deleted, id)
	return nil
}

// steps returns the recorded calls, one line each: the API server's version, then each node with its version.
func (l *ledger) steps() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []string{}
	for _, w := range l.applied {
		nodes := []string{}
		for _, n := range w.Nodes {
			text := strings.TrimPrefix(n.Name, w.Name+"-") + "@" + minor(n.Version)
			if n.Gone {
				text = strings.TrimPrefix(n.Name, w.Name+"-") + " gone"
			}
			nodes = append(nodes, text)
		}
		out = append(out, fmt.Sprintf("%s: %s", minor(w.Version), strings.Join(nodes, ", ")))
	}
	return out
}

func (l *ledger) deletions() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.deleted)
}

// minor returns the minor version, such as 36 for v1.36.3.
func minor(version string) string { return strings.Split(version, ".")[1] }
