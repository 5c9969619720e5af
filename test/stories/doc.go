// SPDX-License-Identifier: Apache-2.0

// Package stories tests what users do to clusters and what happens to them. Each story uses the real Cluster API core
// manager, real API servers on both sides, our manager as its ServiceAccount, and the emulated portal.
//
// All stories share one sandbox. Stories that end the manager do not call t.Parallel, so Go runs them one at a time, before all others. Each
// story has a namespace and a portal account of its own, so the portal's request log of that account belongs to one story. Stories check
// what a user sees (objects, conditions) and what the portal was asked.
//
// A story never waits for a state that passes by itself. It holds the state (a job with the fault emulator.JobStuck, a paused object), or it
// reads what happened from the request log, events or a watch. Durations and rates of requests are checked in virtual time, in controllers.
package stories
