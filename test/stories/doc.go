// SPDX-License-Identifier: Apache-2.0

// Package stories tells, as tests, what users do to clusters and what happens to them: with the real Cluster API core
// manager, real API servers on both sides, our manager as its ServiceAccount, and the emulated portal.
//
// All stories share one sandbox. Each lives in a namespace of its own, under a portal account of its own, so the
// portal's journal of that account is the story's. What is asserted is what a user sees (objects, conditions) and what
// the portal was asked.
package stories
