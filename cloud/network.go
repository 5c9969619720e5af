// SPDX-License-Identifier: Apache-2.0

package cloud

import "context"

// CreateNetworkRequest holds the one documented field of a network.
type CreateNetworkRequest struct {
	CIDR string `json:"cidr"` // such as 10.1.0.0/24: 251 usable addresses
}

// Created is a resource that exists at once (ID), or will when the Job has succeeded (Job.ID, then Job.CreatedID).
type Created struct {
	ID  string
	Job Job
}

// CreateNetwork creates a network whose id serves as networkId of a cluster. The specification does not show whether
// that is synchronous. Networks can be neither listed nor deleted: after an error that IsUnknownOutcome, calling it
// again may make a second one.
func (c *Client) CreateNetwork(ctx context.Context, r CreateNetworkRequest) (Created, error) {
	request, a, err := c.mutate(ctx, routeCreateNetwork, "", r)
	if err != nil {
		return Created{}, err
	}
	job, _ := parseJob(a.body, request.secrets())
	if job.ID != "" {
		request.note(SilenceNetwork, NetworkByJob)
		if job.Status == "" {
			job.Status = JobPending
		}
		return Created{Job: job}, nil
	}
	id, _ := createdID(a.body, KindNetwork, "")
	if id == "" {
		return Created{}, unreadable(request, a, "neither id nor jobId")
	}
	request.note(SilenceNetwork, NetworkAtOnce)
	return Created{ID: id}, nil
}
