// SPDX-License-Identifier: Apache-2.0

package portalcluster

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// vpcFresh is how long a VPC that was found counts for other PortalClusters. It covers PortalClusters that are created together.
// It is short because a person may replace the VPC by another one of that name.
const vpcFresh = time.Minute

// vpcs remembers the VPCs that were found, so that many PortalClusters of one account look a VPC up once. The zero value is ready
// to use.
type vpcs struct {
	mu    sync.Mutex
	known map[vpcKey]*vpcLookup
}

// vpcKey identifies a VPC name in an account. A portal client represents an account: other credentials make another client.
type vpcKey struct {
	portal *cloud.Client
	name   string
}

// vpcLookup is a request under way, or its answer.
type vpcLookup struct {
	done  chan struct{} // closed when the answer has arrived
	at    time.Time     // of the answer
	found []cloud.VPC
	err   error
}

// find returns the VPCs of that name. If several callers ask at the same time, one request is sent and all get its answer. Only
// an answer with exactly one VPC is remembered, because a person may correct any other at any time.
func (v *vpcs) find(ctx context.Context, portal *cloud.Client, name string) ([]cloud.VPC, error) {
	key := vpcKey{portal, name}
	v.mu.Lock()
	maps.DeleteFunc(v.known, func(_ vpcKey, l *vpcLookup) bool { return !l.at.IsZero() && time.Since(l.at) > vpcFresh })
	lookup, known := v.known[key]
	if !known {
		lookup = &vpcLookup{done: make(chan struct{})}
		if v.known == nil {
			v.known = map[vpcKey]*vpcLookup{}
		}
		v.known[key] = lookup
	}
	v.mu.Unlock()
	if !known {
		v.ask(ctx, key, lookup)
	}
	select {
	case <-lookup.done:
		return lookup.found, lookup.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask asks the portal. It closes done even if it panics, because others wait for it.
func (v *vpcs) ask(ctx context.Context, key vpcKey, lookup *vpcLookup) {
	var found []cloud.VPC
	err := errors.New("the portal was not asked")
	defer func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		lookup.found, lookup.err, lookup.at = found, err, time.Now()
		if err != nil || len(found) != 1 {
			delete(v.known, key)
		}
		close(lookup.done)
	}()
	found, err = key.portal.VPCs(ctx, key.name)
}
