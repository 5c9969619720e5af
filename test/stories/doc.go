// SPDX-License-Identifier: Apache-2.0

// Package stories tests what users do to clusters and what happens to them. Each story uses the real Cluster API core
// manager, real API servers on both sides, our manager as its ServiceAccount, and the emulated portal.
//
// Most stories share one sandbox, and those that end the manager share another one, one story at a time. Each story has a
// namespace and a portal account of its own, so the portal's request log of that account belongs to one story. Stories check
// what a user sees (objects, conditions) and what the portal was asked.
package stories
