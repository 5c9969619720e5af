// SPDX-License-Identifier: Apache-2.0

// Package cloud is the client of the portal: its REST API as Go methods, one resource per file. It does not depend on Kubernetes.
//
//	client, err := cloud.New(config)                            // or Pool.Client(config)
//	r, err := client.Reserve("tenant/cluster", ratelimit.Mutation) // or an error: come back at RetryAt
//	defer r.Cancel()
//	job, err := client.ScaleCluster(cloud.WithReservation(ctx, r), id, 5)
//	if cloud.IsBusy(err) { ... }                                // errors are named by what to do
//
// # The chain
//
// A method whose request starts a job, such as ScaleCluster (cluster.go), calls startJob (job.go), which calls ask and then send, both
// in client.go. From there the request passes down through four small handlers, and the answer passes back up:
//
//	Client      client.go    makes the request, and makes an *Error of every answer but a success
//	authorized  auth.go      adds the token, and logs in first if necessary. If the portal refused the token, and so did not execute
//	                         the request, it sends the request again with a new token
//	limited     limit.go     spends a reservation, and passes the answer's headers to the rate limiter
//	observed    observe.go   calls Config.Observe
//	exchange    exchange.go  makes one HTTP request within its timeouts and bounds, and knows whether the request was written
//
// The order matters. Limited comes after authorized, so repeated requests and logins are counted by the rate limit like any request.
// Observed comes after limited, so it sees exactly the requests that the portal sees. The login (login.go, mfa.go) enters the chain at
// limited, because it needs no token.
//
// # Tokens
//
// A session (session.go) has no token, a full token, a token that is due for refresh, or a refusal. It gets a full token by a
// login, which all callers share: e-mail and password, and for an account with MFA a one-time code. The pre-MFA token is sent to the
// MFA endpoints only. A token is due for refresh after 7 of its 8 hours. If the login then fails, the token stays in use. A
// 401 drops the token. If the 401 lacks the documented body, a proxy may have sent it, so it drops no token of the last 30 s. A code
// from the TOTP seed is used once, and three refused codes stop the attempts for minutes.
//
// A refusal, of the login or of a fresh token, is remembered for 30 s, then longer, up to 10 min. So wrong credentials cost at most
// two calls a minute, however many reconcilers ask. A login that failed for another reason is tried again after 5 s, then after longer
// waits, up to a minute. While the session has no token, Client.Reserve returns the same error.
//
// # Requests and unknown outcomes
//
// A request is not sent, answered or unknown.
//
//   - Not sent: bad input, no reservation, no token, no connection. It may be repeated.
//   - Answered: a success, or a refusal that names its reason. If the answer has a code of the specification, the code decides, not the
//     HTTP status. A 3xx or 4xx to a read without the documented body is no answer of the portal, but of a server on the way:
//     IsUnavailable, like a 502. Exceptions are 405 and 429.
//   - Unknown (outcome.go): a mutating request was written, and the connection ended, the time was up, or the answer does not say
//     whether the request was executed. IsUnknownOutcome reports true, and all other predicates report false.
//
// The portal has no idempotency keys. So this package, net/http included (transport.go), never sends a request of unknown outcome
// again.
//
// # Accounts
//
// The rate limit belongs to the account, across all its users. Package ratelimit shares it between all flows of this process, and
// decides the order, and when a job is polled. A call without a reservation reserves for itself: for the flow that WithFlow names, or
// else under its own address. All such calls to one address share a place in the queue.
//
// A login decides which account a client of a Pool belongs to (account.go, pool.go). Until a login has worked, the client has a
// small limiter of its own. After that, clients share an account if they have
//
//   - the same portal, however its base URL is spelled, since user ids of two portals have nothing to do with each other,
//   - the same user, by the user.id of the login, or the same Config.Account, which counts only after the login,
//   - and the same Config.RequestsPerMinute.
//
// So an e-mail address or a wrong password does not slow another user down, and one user cannot set another's limit. Three gaps
// remain:
//
//   - The login does not name the account. If two users of one account have no Config.Account, only the portal's refusals make them
//     share the limit.
//   - The portal may count refused logins against the account of the e-mail address. One session sends at most two a minute, but many
//     identities send more.
//   - A person who knows the credentials can use up the account's requests without this program.
//
// Several processes may use one account. Each of them gets a part by ratelimit.Options.AccountShare. Config.RequestsPerMinute is the
// whole account's. The small limiter that a client has before its login is not divided.
//
// A Pool keeps a thousand clients, and two hundred of one Config.Owner. If an owner has more in use, they log in again and again, and
// what their sessions remember of refusals is lost.
//
// # Hosts
//
// Config.Hosts (hosts.go) keeps a client from hosts at which no portal is expected. It checks the name in the base URL, and for each
// connection the address that the name resolved to. No redirect is followed. Behind a proxy of the environment only the name is
// checked, because the proxy resolves it. The time that a refusal takes can still show something about a host.
//
// # Secrets
//
// Passwords, seeds, codes and tokens are in no error, no metric and no printed form of any type. Text of the portal is bounded,
// stripped of control characters, and searched for the secrets of the call before it becomes an error. Text with a secret is left out as
// a whole, and of the answer to a login always (see refused).
//
// # Where the specification is silent
//
// Package conformance lists every place that the specification leaves open, with the shapes that the client accepts and the tests
// for them. The readers of these shapes are in shape.go. An answer that lacks what it must say is an error, never an empty result.
package cloud
