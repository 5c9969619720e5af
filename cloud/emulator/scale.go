// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

type scaleBody struct {
	Size int `json:"size" portal:"required"`
}

// scaleCluster answers POST /kubernetes-clusters/{cluster_id}/scale. A scale to the present size is a job with nothing to do.
func (p *Portal) scaleCluster(c *call) (answer, *refusal) {
	var body scaleBody
	if err := c.decode(&body); err != nil {
		return answer{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	cl, err := p.clusterOf(c)
	if err != nil {
		return answer{}, err
	}
	if err := p.checkSize(body.Size, cl.ControlNodes); err != nil {
		return answer{}, err
	}
	if network, err := p.networkByID(cl.Account, cl.NetworkID); err == nil && body.Size > cl.Size {
		if err := p.checkRoom(network, cl, body.Size+cl.ControlNodes, "size"); err != nil {
			return answer{}, err
		}
	}
	redundant := p.opts.Traits.RedundantFails && body.Size == cl.Size
	faults, reaches := c.faults, cl.Size
	if body.Size > cl.Size {
		reaches += faults.nodesDone(body.Size - cl.Size)
	} else {
		reaches -= faults.nodesDone(cl.Size - body.Size)
	}
	if cl.JobID == "" {
		cl.reserved = max(cl.Size, body.Size)
	}
	return p.operate(c, cl, ClusterScaling, fmt.Sprintf("size %d → %d", cl.Size, body.Size), jobSpec{
		kind: JobScaleCluster, takes: p.opts.Durations.Scale,
		work: func(ctx context.Context, takes time.Duration) (any, error) {
			err := p.scaleNodes(ctx, cl, reaches, takes, faults)
			if err == nil && redundant {
				err = errRedundant
			}
			p.settle(cl, faults, cmp.Or(err, faults.failLate()))
			return p.jobResult(cl), err
		},
	})
}

// scaleNodes adds or removes workers until there are as many as given. A portal that drains the victims removes one after the other, so
// if the drain of one fails, those before it are gone.
func (p *Portal) scaleNodes(ctx context.Context, cl *cluster, size int, takes time.Duration, faults matchedFaults) error {
	p.mu.Lock()
	victims, drainTime := p.resize(cl, size), p.drainTime(faults)
	if drainTime == 0 || len(victims) == 0 {
		leave(victims, faults.leavesNodes())
		p.mu.Unlock()
		return p.applyNodes(ctx, cl, takes)
	}
	p.mu.Unlock()
	for i := range victims {
		if err := p.drainNode(ctx, cl, victims[i], drainTime); err != nil {
			return err
		}
		p.mu.Lock()
		leave(victims[i:i+1], faults.leavesNodes())
		p.mu.Unlock()
		if err := p.applyNodes(ctx, cl, takes/time.Duration(len(victims))); err != nil {
			return err
		}
	}
	return nil
}

// scaleDirection returns whether the call asks for more or for fewer workers than its cluster has, or "". Callers hold mu.
func (c *call) scaleDirection() ScaleDirection {
	var body struct{ Size *int }
	if c.route == nil || !strings.HasSuffix(c.route.pattern, "/scale") || json.Unmarshal(c.body, &body) != nil || body.Size == nil {
		return ""
	}
	switch cl, err := c.portal.clusterOf(c); {
	case err != nil || *body.Size == cl.Size:
		return ""
	case *body.Size > cl.Size:
		return ScaleUp
	}
	return ScaleDown
}
