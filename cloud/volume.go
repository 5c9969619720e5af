// SPDX-License-Identifier: Apache-2.0

package cloud

import "context"

// DeleteVolume deletes a volume; a cluster's volumes outlive it. The specification does not show whether that is
// synchronous: if it is, the Job has succeeded already and has no ID.
func (c *Client) DeleteVolume(ctx context.Context, volumeID string) (Job, error) {
	return c.finish(ctx, routeDeleteVolume, volumeID)
}
