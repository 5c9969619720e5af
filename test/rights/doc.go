// SPDX-License-Identifier: Apache-2.0

// Package rights lets a Cluster live with the rights of each user: the manager with the namespaced roles of config/namespaced, core with the
// roles of its release, and people who move and restore objects. Package contract has what a single write needs.
package rights
