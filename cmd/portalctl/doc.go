// SPDX-License-Identifier: Apache-2.0

// Command portalctl looks things up at the portal, changes them, and tests credentials. It shows whether a problem is the portal's.
//
// It is a thin front end of package cloud. It uses the same client, login and limiter as the provider, so a request that works
// here works in the provider too, and people who share an account with a manager are rate limited like the manager.
//
// Read main.go first, which passes the terminal, the environment and the signals to app.go, which builds the tree of commands. Each
// command has one file: vpcs.go, clusters.go, jobs.go, ... It gets a client from connect.go, calls one method, and prints the result
// (output.go). If it changes something, it passes the call to operate.go, which never abandons a call that was sent, follows the job
// (follow.go, progress.go), and reports what is known if an answer is lost. exit.go maps all errors to exit codes and advice.
//
// One command asks Kubernetes instead of the portal: page.go serves the page of package cloud/emulator/page for a management cluster.
//
// Secrets come from the environment, from standard input or from a prompt (terminal.go). They never come from a flag, which every
// process of the machine can read. They are sent only to the portal, and only the command identity prints them.
package main
