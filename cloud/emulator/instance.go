// SPDX-License-Identifier: Apache-2.0

package emulator

import "net/http"

// InstanceState is the state of a machine. The specification names these two.
type InstanceState string

// The states of an instance: one that is coming up, being removed or stopped (Portal.StopMachine) is Stopped.
const (
	InstanceRunning InstanceState = "Running"
	InstanceStopped InstanceState = "Stopped"
)

// Instance is the machine of a node. Beyond id its fields are our choice.
type Instance struct {
	ID        string        `json:"id"`
	Account   string        `json:"-"`
	Name      string        `json:"name"` // of its node
	State     InstanceState `json:"state"`
	ZoneID    string        `json:"zoneId"`
	NetworkID string        `json:"networkId"`
	ClusterID string        `json:"kubernetesClusterId"`
}

// Instances returns the machines of all accounts, by cluster, oldest first.
func (p *Portal) Instances() []Instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := []Instance{}
	for _, cl := range p.occupants() {
		for _, n := range cl.nodes {
			if n.Gone {
				continue
			}
			i := Instance{ID: n.ID, Account: cl.Account, Name: n.Name, State: InstanceStopped, ZoneID: cl.ZoneID,
				NetworkID: cl.NetworkID, ClusterID: cl.ID}
			if n.up && !n.Stopped {
				i.State = InstanceRunning
			}
			out = append(out, i)
		}
	}
	return out
}

// listInstances answers GET /instances.
func (p *Portal) listInstances(c *call) (answer, *refusal) {
	out := []Instance{}
	for _, i := range p.Instances() {
		if i.Account == c.account {
			out = append(out, i)
		}
	}
	return answer{status: http.StatusOK, body: p.opts.Shapes.instances(out)}, nil
}

// getInstance answers GET /instances/{instance_id}.
func (p *Portal) getInstance(c *call) (answer, *refusal) {
	for _, i := range p.Instances() {
		if i.Account == c.account && i.ID == c.params["instance_id"] {
			return answer{status: http.StatusOK, body: i}, nil
		}
	}
	return answer{}, notFound("instance", c.params["instance_id"])
}
