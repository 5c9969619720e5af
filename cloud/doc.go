// SPDX-License-Identifier: Apache-2.0

// Package cloud is the client of the portal: its REST API as Go methods, one resource per file. It knows nothing of
// Kubernetes. Whoever uses it makes a Client from a Config (or takes one from a Pool), asks the account's Governor for
// a Ticket, makes one call with it, and asks the error what to do.
//
// # The chain
//
// A call passes from the Client through five small handlers, and its answer passes them on the way up:
//
//	Client      client.go    writes the request; turns all but a success into an *Error
//	replaying   auth.go      a refused token was not executed: one more try with a new token
//	authorized  auth.go      puts the token on, logging in first if need be
//	governed    govern.go    spends a ticket; tells the governor what the answer says about the account
//	observed    observe.go   tells Config.Observe
//	exchange    exchange.go  one HTTP request with its timeouts and bounds; knows whether it was written
//
// The order is the point. Replaying stands above authorized, so that the second try gets the new token; governed
// stands below both, so that a replay and a login pay for themselves like any request; observed stands below governed,
// so that what it counts is what the portal saw. The login (login.go, mfa.go) enters the chain at governed: it needs no
// token.
//
// # What can be where, and what interrupts it
//
// A token (session.go) is none, full, due or refused. None becomes full by a login, which many callers share: e-mail
// and password, and for an account with MFA one code more, for which the pre-MFA token goes to the MFA endpoints and
// nowhere else. Full becomes due after 7 of its 8 hours, and a due token serves on while a new one cannot be had. Any
// 401 drops it. Refused, by the login or right after one, stays refused for 30 s, then longer, up to 10 min: however
// many reconcilers come along, wrong credentials cost two calls a minute. A login that failed for another reason is tried
// again after 5 s, then ever later, up to a minute. While there is no token, Client.Reserve returns that error too. A code from the TOTP seed is used once, and
// three refused codes stop the attempts for minutes.
//
// A ticket (ticket.go) is queued, granted, then spent, returned or expired. Reserve never waits: it grants, or says
// when to come back and keeps the flow's place until 15 s after that. When the flow's turn has come, its token is kept
// for two seconds, and GovernorOptions.Wake is called. A flow that comes later is served first. A granted ticket expires
// after a minute. A 429 for anybody closes the gate for everybody: tickets in hand are returned, tokens set aside for
// places are taken back, and RetryAt moves.
//
// Only so many mutations are between ticket and answer as the rate needs while the portal takes its time to answer: 4
// if it is fast, 15 if an answer takes 3 s, never more than GovernorOptions.MaxOpen. A caller that writes down its
// intent between the two has at most so many in doubt after a crash. With N open and 3 s for an answer, N/3 are sent a second. Each of those is then looked up, never sent twice.
//
// A call is not sent, sent, answered or unknown. Not sent: bad input, no ticket, no token, no connection; it may be
// repeated. Answered: success, or a refusal that names its reason; a listed code decides whatever the status. Unknown (outcome.go): a mutating request was
// written, and the connection ended, time was up, or the answer does not say what became of it. The portal has no
// idempotency keys, so nothing here ever sends such a request again, net/http included (transport.go); IsUnknownOutcome
// tells, and every other predicate says no.
//
// # The account
//
// The rate limit belongs to the account, across all its users. A Governor (governor*.go) keeps a token bucket a little
// smaller than the portal's and corrects it by X-RateLimit-Limit, X-RateLimit-Remaining and every 429, so that people
// on the same account find room. Its queue serves logins, changes, creations, reads and polls in this order, but
// reads get a tenth and polls a fifth of the tokens in any case. Within a class the tenants take turns: a tenant is
// the part of a flow's name before the slash, usually a namespace. A call without a ticket takes one itself, for the
// flow that WithFlow names, or else with its own address as flow: all such calls to one address share a place.
// A login takes the tickets of all its requests together, before everything else (governor_login.go).
//
// Which Governor a client of a Pool goes by, its login decides (standing.go, pool.go). Until a login has worked, the client has a
// small one of its own. After that, clients share one if they have
//
//   - the same base URL, since a portal may call its users what it likes,
//   - the same user, by the user.id of the login, or the same Config.Account, which counts only now,
//   - and the same Config.RequestsPerMinute.
//
// So neither an e-mail address nor a wrong password slows another user down, and nobody sets another's limit. What remains: the
// login does not name the account, so users of one account whose identities name none find their share by the portal's refusals.
// The portal may count refused logins against the account of the e-mail address. A session sends two a minute at most, but
// many identities, of several owners, send more. And who knows the credentials can spend the account's requests without this program.
//
// Several processes may use one account. GovernorOptions.AccountShare gives each of them a part of the rate and the burst. The part is
// taken of whatever limit is known: GovernorOptions.Limit, Config.RequestsPerMinute and X-RateLimit-Limit all name the whole account's.
// X-RateLimit-Remaining is the whole account's too: every governor stops at the margin, whoever used the rest. So shares that add up to
// 1 stay within the limit. The share of a process that does not run is not used by the others. A governor with a share does not look for
// a higher tier (bucket.explore). The small governor that a client has before its login is not divided.
//
// A Pool keeps a thousand clients, and twenty of one Config.Owner. If an owner has more in use, they log in again and again.
//
// # Hosts
//
// Config.Hosts (hosts.go) keeps a client from hosts that no portal is at. It looks at the name in the base URL, and at each
// connection at the address that the name resolved to. No redirect is followed. Behind a proxy of the environment only the name is
// looked at, since the proxy resolves it. How long a refusal takes still says something about what is at a host.
//
// Looks at jobs are drawn by tokens rather than set for times (poll.go). The governor learns from the looks how long a
// kind of job takes. A token that nothing else needs goes to a job that may well be done, the one that is due or unseen
// for longest; a token that the bucket cannot hold goes to any job; and a job that nobody looked at for 30 s has a part
// of the polls' share. No job is looked at twice within 5 s. Package fleet measures this.
//
// # Secrets
//
// Passwords, seeds, codes and tokens are in no error, no metric and no printed form of any type. Text of the portal is
// bounded, stripped of control characters, and searched for the secrets of the call before it becomes an error.
//
// # Where the specification is silent
//
// Silences (silence.go) lists every place that the specification leaves open, with the shapes that the client accepts
// and the tests that hold it to them; silence_read.go reads those shapes. An answer that says nothing is an error, never
// an empty result.
package cloud
