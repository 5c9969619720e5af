// SPDX-License-Identifier: Apache-2.0

// Package page is a picture of an emulated portal, for a browser on this machine: the clusters with their nodes, the jobs, the
// account's rate limit and the log of requests. If the caller reads a management cluster too, the picture shows Machines
// and a line from each Machine to the node that it claims.
//
// The page is HTML, CSS and JavaScript that are embedded in the program (static/). Nothing is built, and nothing is loaded from
// elsewhere. It shows what [Handler] serves:
//
//	GET    /              the page and its files
//	GET    /snapshot      the state as JSON, and the end of the log
//	GET    /events        the same as server-sent events: "state" when it has changed, "log" when it has grown
//	POST   /faults        arms a fault, as the emulator's admin listener does
//	DELETE /faults        removes all faults
//	DELETE /faults/{id}   removes one fault
//	PUT    /victim-order  changes the order in which scale-downs remove workers
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
// which no form and no link can send. With [Options.ReadOnly] every change is refused.
//
// The picture shows no secrets: no passwords, tokens, kubeconfigs or mails, and no bodies of requests.
package page
