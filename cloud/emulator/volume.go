// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// JobDeleteVolume deletes a volume, if the shapes make that a job (Shapes.VolumeStatus).
const JobDeleteVolume JobKind = "delete volume"

// Volume is a disk. It outlives the cluster that it is attached to.
type Volume struct {
	ID        string `json:"id"`        // default: made up
	Account   string `json:"account"`   // default: DefaultAccount
	ClusterID string `json:"clusterId"` // that uses it. Empty if none does
}

// AddVolume enters a volume, as if a claim in a cluster had asked for it, and returns its id.
func (p *Portal) AddVolume(v Volume) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.addVolume(v)
}

func (p *Portal) addVolume(v Volume) string {
	if v.ID == "" {
		v.ID = p.newID("volume")
	}
	orElse(&v.Account, DefaultAccount)
	p.volumes = append(p.volumes, &v)
	p.record(LogEntry{Object: "volume", ID: v.ID, Account: v.Account, To: "created", Detail: v.ClusterID})
	return v.ID
}

// Volumes returns all volumes, oldest first.
func (p *Portal) Volumes() []Volume {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Volume, 0, len(p.volumes))
	for _, v := range p.volumes {
		out = append(out, *v)
	}
	return out
}

// deleteVolume answers DELETE /volumes/{volume_id} at once: the specification does not list it as asynchronous. A volume
// that a cluster uses stays.
func (p *Portal) deleteVolume(c *call) (answer, *refusal) {
	id := c.params["volume_id"]
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.volumes, func(v *Volume) bool { return v.ID == id && v.Account == c.account })
	if i < 0 {
		return answer{}, notFound("volume", id)
	}
	if user := p.volumes[i].ClusterID; user != "" {
		return answer{}, refuse(CodeOperationNotAllowed, "volume %s is attached to cluster %s", id, user)
	}
	v := p.volumes[i]
	if p.opts.Shapes.VolumeStatus == http.StatusAccepted {
		return p.startJob(c, jobSpec{kind: JobDeleteVolume, work: func(context.Context, time.Duration) (any, error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.volumes = slices.DeleteFunc(p.volumes, func(other *Volume) bool { return other == v })
			p.record(LogEntry{Object: "volume", ID: id, Account: c.account, To: "deleted"})
			return struct{}{}, nil
		}}), nil
	}
	p.volumes = slices.Delete(p.volumes, i, i+1)
	c.note(LogEntry{Object: "volume", ID: id, Account: c.account, To: "deleted"})
	return answer{status: p.opts.Shapes.VolumeStatus, body: struct{}{}}, nil
}
