// SPDX-License-Identifier: Apache-2.0

// Command portalctl looks things up at the portal, changes them, and tests credentials before the portal is blamed.
//
// It is a thin front of package cloud: the same client, login and governor as the provider's, so what works here
// works there, and people who share an account with a manager take their turn as it does.
//
// The reader's path: main.go brings the surroundings (terminal, environment, signals) to app.go, which builds the
// tree of commands. A command is a file: vpcs.go, clusters.go, jobs.go, ... It takes a client from connect.go, calls
// one method, and prints what came (output.go), or hands the call to operate.go if it changes something: that sees to
// it that a call on its way is never abandoned, follows the job (follow.go, progress.go) and tells what is known when
// an answer is lost. Errors become exit codes and advice in one place, exit.go.
//
// Secrets come from the environment, from standard input or from a prompt (terminal.go), never from a flag, which
// every process of the machine can read; and they go nowhere but to the portal and into the output of identity.
package main
