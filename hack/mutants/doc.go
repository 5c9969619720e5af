// SPDX-License-Identifier: Apache-2.0

// Command mutants checks that the tests hold the promises of the project. A mutant is a change of one to five lines that breaks one promise, as
// a careless engineer might. Command mutants makes each change in a worktree of HEAD, runs the tests that should notice, and prints which of
// them did:
//
//	make mutants                                  # all mutants, on the floors without servers
//	make mutants MUTANTS='second-create-after-crash'
//	make mutants FLOORS=contract,witness          # with real servers (make kube)
//
// A floor is how tests run: unit (pure functions, and controllers with a fake API server), client (the client and the emulator in virtual
// time), world (the real core in virtual time), contract (a real API server without the real core), witness (all servers are real).
//
// A mutant of one of the files *.txt:
//
//	== its-name
//	The promise, in one sentence.
//	floor folder tests             # one line for each test that should notice. tests as for go test -run
//	@ file                         # the lines below replace a text that the file has exactly once
//	-text before
//	+text after
//
// Each text may begin and end within a line.
package main
