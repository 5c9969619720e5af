// SPDX-License-Identifier: Apache-2.0

// Package page is a picture of an emulated portal, for a browser on this machine: the clusters with their nodes, the jobs, the
// account's rate limit, the log of requests, and a timeline of the last minutes of each cluster. If the caller reads a management cluster
// too, the picture shows Machines and a line from each Machine to the node that it claims, conditions, and actions of a user.
//
// Without a portal, it is a picture of a real fleet: portalctl page serves it. The management cluster is the only source then, so what only
// an emulator knows is not shown: the log, the budgets, faults, counted requests and lost Pods. Its events take the place of the log.
//
// The page is HTML, CSS and JavaScript that are embedded in the program (static/). Nothing is built, and nothing is loaded from
// elsewhere. It shows what [Handler] serves:
//
//	GET    /              the page and its files
//	GET    /snapshot      the state as JSON, and the end of the log
//	GET    /events        server-sent events: "state" when it has changed, "log" and "history" when they have grown
//	POST   /faults        arms a fault, as the emulator's admin listener does
//	DELETE /faults        removes all faults
//	DELETE /faults/{id}   removes one fault
//	POST   /clusters/{id}/repair  repairs a cluster as the portal's operator does
//	PUT    /victim-order  changes the order in which scale-downs remove workers
//	POST   /actions       runs a command that the state offers, if it is offered still
//
// # The timeline
//
// The history is a list of moments: what differs between two readings of the state, the beginning and the end of each job, and each request
// that changes something; without a portal, what events tell, and the numbers of workers. A stream begins with those that are kept. [Listen]
// reads the state once a second even if no page is open.
//
// # Limits
//
// An event stream sends at most one state and one part of the log every 250 ms, no matter how much happens at the portal, and nothing while
// nothing changes. All streams share one reading of the state. At most 16 streams are open at a time.
//
// # Recordings
//
// [Record] writes what a stream sends to a file, and [ListenPlayer] serves the page with such a file in place of a portal: the same
// files, of which recording.js is the source of events. A jump in the recording is a new connection to all the others. [PlayerFiles]
// are for any server of files. cmd/portal-player has a recording of make demo, and says how to make it again after a change of
// what a stream sends.
//
// # Who may look and click
//
// The server listens on loopback and answers only to loopback names, so no other machine reaches it, and no web page reaches it
// through a name that resolves to loopback. Data and changes are refused to other origins. A change needs the header X-Portal-Page as well,
// which no form and no link can send. With [Options.ReadOnly] every change is refused. An action is a command that the page itself offers:
// a browser chooses one of them and cannot send another.
//
// The picture shows no secrets: no passwords, tokens, kubeconfigs or mails, and no bodies of requests.
package page
