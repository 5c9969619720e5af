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
	request, a, err := c.get(ctx, routeInstances, "")
	if err != nil {
		return nil, err
	}
	return decodeList(request, a, "instances", readInstance)
}

// Instance reads one instance: bare, or under the key instance.
func (c *Client) Instance(ctx context.Context, instanceID string) (Instance, error) {
	request, a, err := c.get(ctx, routeInstance, instanceID)
	if err != nil {
		return Instance{}, err
	}
	if instance, ok := readInstance(a.body); ok {
		return instance, nil
	}
	var outer struct {
		Instance json.RawMessage `json:"instance"`
	}
	_ = json.Unmarshal(a.body, &outer) // a body that is no object holds no instance either
	instance, ok := readInstance(outer.Instance)
	if !ok {
		return Instance{}, unreadable(request, a, "no instance with an id")
	}
	return instance, nil
}

func readInstance(raw json.RawMessage) (Instance, bool) {
	var v struct {
		ID    jsonText `json:"id"`
		Name  jsonText `json:"name"`
		State jsonText `json:"state"`
	}
	err := json.Unmarshal(raw, &v)
	return Instance{ID: string(v.ID), Name: string(v.Name), State: string(v.State), Raw: raw}, err == nil && v.ID != ""
}
