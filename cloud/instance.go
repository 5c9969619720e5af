// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"context"
	"encoding/json"
)

// Instance is a virtual machine of the account. The specification shows no field but id and names the states Running
// and Stopped. The others are filled if the portal sends them.
type Instance struct {
	ID    string
	Name  string
	State string
	Raw   json.RawMessage // the record as the portal sent it
}

// Instances lists all instances of the account in one call.
func (c *Client) Instances(ctx context.Context) ([]Instance, error) {
	return list(ctx, c, routeInstances, nil, "instances", newInstance)
}

// Instance reads one instance: bare, or under the key instance.
func (c *Client) Instance(ctx context.Context, instanceID string) (Instance, error) {
	request, a, err := c.ask(ctx, routeInstance, instanceID, nil)
	if err != nil {
		return Instance{}, err
	}
	var outer struct {
		Instance json.RawMessage `json:"instance"`
	}
	_ = json.Unmarshal(a.body, &outer) // a body that is no object holds no instance either
	for _, raw := range []json.RawMessage{a.body, outer.Instance} {
		if r, ok := readRecord(raw); ok {
			return newInstance(r), nil
		}
	}
	return Instance{}, unreadable(request, a, "no instance with an id")
}

func newInstance(r record) Instance {
	return Instance{ID: string(r.ID), Name: string(r.Name), State: string(r.State), Raw: r.raw}
}
