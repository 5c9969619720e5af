// SPDX-License-Identifier: Apache-2.0

// Package matrix holds the client to the emulator: every method against everything that can go wrong, every shape of
// answer, and every place in which a secret must not appear. It holds nothing but tests, all in virtual time.
//
//	fault_test.go   what each group of methods answers to each fault: the tables to read first
//	matrix_test.go  fills the tables' cells; a create is never sent twice
//	job_test.go     jobs that get stuck, fail, are forgotten, or succeed without an id
//	life_test.go    a cluster's whole life under each shape and option
//	canary_test.go  secrets are in no error, no printed form, no journal; tap_test.go knows them
//	whole_test.go   no method, endpoint or shape is left out
//
// Package cloud's own tests go deeper into single rules; these go over all of them.
package faulttest
