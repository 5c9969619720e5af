// SPDX-License-Identifier: Apache-2.0

// Package operation runs what a portal does asynchronously: create, create-vpc, create-network, scale, upgrade and delete. There is at most
// one operation per object at a time. It is recorded in an annotation of the object, so it survives a crash of the manager
// between the request and the answer, clusterctl move, and a backup.
//
// The states of an operation:
//
//	           token, then            202, the job's             the job ends, or the
//	(none) ──▶ the intent is ──────▶ id is stored ────────────▶ result is seen otherwise
//	or ended     stored                  │                           │
//	   ▲        intended ───────────▶ accepted ──────────────────▶ ended ── (Result says how)
//	   │           │  │                  │
//	   │  refused  │  │ answer lost,     │ the portal forgot the job,
//	   └───────────┘  │ manager killed   │ or a creation names no id
//	                  └──────▶ lost ◀────┘
//	                            └── a creation's job is known after all ──▶ accepted
//
// What can interrupt an operation:
//
//   - A conflict when the intent is stored: another writer was faster. Nothing was sent, and nothing will be.
//   - A refusal that is not about the content of the request (busy, rate limit, maintenance, credentials): the previous record is
//     restored. Any other refusal ends the operation as Refused.
//   - A lost answer: the connection is cut, the answer cannot be read, or the manager is killed between intent and answer. The
//     portal may or may not carry the request out.
//   - A late answer. For a scale, upgrade or deletion it is a lost one, after a minute. The answer to a creation is waited for in the
//     background, for up to five minutes (calls.go): passes see that it is awaited, a manager that is asked to stop waits for it, and the
//     object is not moved before. What a person has decided in the meantime is kept.
//   - A job that the portal does not know, while the portal user is the same: lost too. The portal may have forgotten the job, or may
//     not know it yet.
//
// What happens to a lost operation depends on its type (Type.Repeatable):
//
//   - Scale, upgrade and delete name the cluster by its id and ask for an end state, so they can be sent again. Until then, a lost one
//     counts as running. It ends when the nodes show that it is done (the controller calls Finish), or when a new request replaces
//     it (Start). If the portal is still working on it, it answers RESOURCE_BUSY, and the operation stays lost.
//   - A VPC is looked for by its name, for as long as a job may run. If the portal does not list it then, it is asked again.
//   - Another creation that is sent twice makes two clusters, because the portal has no idempotency keys and no documented list of clusters
//     (specification, Limits rule 4). So a lost creation is held, and the provider never sends it again on its own. It asks the portal,
//     ever more rarely, for the job and for a cluster of that name. The creation goes on if the portal knows the job. It ends when the
//     cluster is found by its name, when a person sets its id in spec, or when a person allows one retry.
//
// A person can end a stuck or lost scale, upgrade or delete with the annotation decision.
//
// The brake (brake.go) decides whether an operation whose job failed is sent again. Its states, for one type of operation and one request:
//
//	free     no costly failure. A refused request has a backoff only
//	waiting  at most maxRepeats costly failures. It is sent again repeatPause after the last one, or at once if a person allows it
//	stopped  more costly failures. It is sent again once, if a person allows it
//
// A costly failure leads from free to waiting, and from there to stopped. A success, or another request of the type, leads back to free. So
// what is asked for decides, such as the version: other credentials are no other request.
//
//   - A failure is costly if the same request may work on nodes again, or create something again. The nodes show the first, before and
//     after a scale or an upgrade (lifecycle.RecordWork). A creation's failure is costly, unless the job's error is a refusal.
//   - Any other failed job is read like a refusal: some portals check a request only in the job. The backoff of refused requests applies,
//     which is in memory. Each refused creation leaves a name behind, so the third one and later ones wait for repeatPause.
//   - A scale that failed nearer to its size is not costly, because it ends by itself.
//   - A lost upgrade that was seen to work on nodes, and then shows no progress, has failed.
//
// The failures are counted in the record, so the brake holds after a restart, clusterctl move and a restore. The manager may stop between the
// end of the job and the look at the nodes. The next one looks then, and misses at most a node that the portal has made schedulable again.
//
// State is what is stored: the last operation, which stays when it has ended, and the record of what cannot be read back from the
// portal. What becomes known about an operation is an Event, and State.After alone says what follows from it (state.go). The intent is
// stored with an optimistic lock before the request is sent. An Event is stored right after the answer, and that is repeated until it
// is stored or the time is up (persist.Writer.Persist).
package operation
