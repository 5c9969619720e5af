// SPDX-License-Identifier: Apache-2.0

// Package journal keeps, on the object itself, the one operation that runs at the portal for it, and the record of what
// could not be found again. It is what lets the provider survive a crash between "create" and "remember".
//
// The life of an operation, and what can interrupt it:
//
//	(none) ── Intend ──▶ intended ── the call ──▶ accepted (jobID) ── job ends ──▶ (none), outcome in the record
//	             │            │                        │
//	             │            │                        └ the job is gone: create → unknown, others → decided anew
//	             │            └ crash, or an answer nobody could read: create → unknown, others → decided anew
//	             └ conflict (somebody else wrote): nothing was sent, stop
//
// Scale, upgrade and delete are absolute and name the cluster by its id, so an intent without a job is dropped and
// decided anew. A create is not: the portal has no idempotency keys and no documented list of clusters (specification,
// Limits rule 4), so its outcome is unknown until a person, or the portal itself, says. It is never sent again by itself.
//
// An intent is written with an optimistic lock before the call; an outcome is written at once after it, again and again
// until it is stored or the time is up.
package journal
