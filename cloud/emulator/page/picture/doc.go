// SPDX-License-Identifier: Apache-2.0

// Package picture reads what package page shows from a management cluster: Clusters with their conditions and actions, Machines and the nodes
// that they claim.
//
// [Read] is for a page that shows a portal too. A [Fleet] is for a page that has only the management cluster, with the rights of the Role
// portal-reader (docs/tenants.md). It reads no Secret, and so no workload cluster: a Node is what its Machine says of it, and what has
// happened is what the provider's events say.
package picture
