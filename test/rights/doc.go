// SPDX-License-Identifier: Apache-2.0

// Package rights tries who may do what at a real API server: the manager with the namespaced roles of config/namespaced, core with the
// roles that it ships, a tenant with every right in one namespace, and people who move and restore objects.
package rights
