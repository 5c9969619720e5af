// SPDX-License-Identifier: Apache-2.0

// Package secrets runs a cluster's life with the real manager at the highest verbosity, and searches everything that is written for
// secrets: logs, the emulator's request log, the output of portalctl, events, objects and metrics.
//
// search_test.go finds a secret in plain text and in every common encoding: escaped, in base64, in hexadecimal, in a hexdump, or nested.
package secrets
