// SPDX-License-Identifier: Apache-2.0

// Package faulttest tests the client against the emulator: every method with every fault, every shape of answer, and every place
// in which a secret must not appear. It contains only tests, all in virtual time.
//
//	fault_test.go   what each group of methods answers to each fault: the tables to read first
//	matrix_test.go  runs the tables, and checks that no create is sent twice
//	method_test.go  the methods of the client. No method, endpoint or shape is left out
//	life_test.go    a cluster's whole life under each shape and option
//	canary_test.go  secrets are in no error, no printed form and no request log. tap_test.go knows them
//
// The tests of package cloud test single rules in more depth.
package faulttest
