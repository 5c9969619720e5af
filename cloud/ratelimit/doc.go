// SPDX-License-Identifier: Apache-2.0

// Package ratelimit shares the rate limit of one portal account between all its users in this process. Its words are those of
// golang.org/x/time/rate, but its limiter differs in four ways: the portal's responses correct it, calls have classes, tenants
// take turns, and a refused caller keeps its place in the queue without blocking.
//
//	r, err := limiter.Reserve("tenant/cluster", ratelimit.Mutation) // or a *WaitError: come back at RetryAt
//	defer r.Cancel()
//	limiter.Spend(r)                                                // and send the request
//	r.Settle(true, &ratelimit.Response{...})
//
// # Reservations
//
// Reserve never waits. It grants a Reservation, or returns a *WaitError and keeps the flow's place in the queue until 15 s after
// the time in the error. When it is the flow's turn, its token is set aside for two seconds and Options.Wake is called. If the
// flow comes later, it gets the next token of its class. A Reservation is granted and then spent, canceled or expired (after a
// minute).
//
// # Order
//
// Tokens go to logins, mutations, creations, reads and polls, in this order. Reads are guaranteed a tenth of the tokens and polls
// a fifth. Within a class the tenants take turns. A tenant is the part of a flow's name before the slash, usually a namespace. All
// requests of a login are reserved together (login.go).
//
// Polls of a job have no fixed interval (poll.go). The limiter learns from the polls how long a kind of job takes. A token that no
// other call needs goes to a job that is likely done, first to the one that has been due longest. If the bucket is full, a new token
// would be lost, so it goes to any job. A job that was not polled for 30 s gets a part of the polls' share. No job is polled twice
// within 5 s. An interval that only grows with the age of a job is slower: with it, 1,000 clusters whose jobs take 8 minutes need 1.15
// times the bound, and not 1.01. Package internal/fleet measures this.
//
// Mutations and creations are open from reservation to response. A crash leaves open calls in doubt, so their number is bounded: as
// many as the rate needs at the portal's response time, at least 4 and at most Options.MaxOpen. At 5 requests a second and 3 s for a
// response, 15 are open. A creation waits for open mutations and creations, a mutation only for mutations: a portal may take minutes
// to answer a creation, and running clusters must not wait for that.
//
// # What the portal says
//
// The bucket (bucket.go) stays a tenth of the burst below the portal's, so people who use the same account find room. It begins with
// the documented 300 requests a minute and a burst of 50. X-RateLimit-Limit replaces the limit, the largest X-RateLimit-Remaining
// replaces the burst, and each X-RateLimit-Remaining lowers the level. A portal may count there what is left of the burst, or what is
// left of the minute. So a burst of more than a sixth of the limit, the proportion of the standard tier, is never believed. Nothing
// else raises limit and burst, because an account that people share must not get a 429 so that the limiter learns its limit. A 429
// closes the gate for all callers (gate.go): reservations that are not spent are canceled, tokens that were set aside are taken back,
// and the rate falls by three tenths and recovers slowly.
//
// Options.AccountShare divides an account between processes. Each limiter uses its part of the rate and the burst. The portal's
// figures are the whole account's. Shares that add up to 1 stay within the limit, and the share of a process that does not run is
// not used by the others.
package ratelimit
