// SPDX-License-Identifier: Apache-2.0

// Package rights checks the rights of each user at a real API server: the manager with the namespaced roles of config/namespaced, core with
// the roles of its release, a tenant with every right in one namespace, and people who move and restore objects.
package rights
