// SPDX-License-Identifier: Apache-2.0

// Package secrets runs a cluster's life with the real manager at the highest verbosity and looks for every secret in all that
// is written: logs, the emulator's journal, what portalctl prints, events, objects and metrics.
//
// search_test.go finds a secret however it is written: plain, escaped, in base64, in hexadecimal, as a hexdump, or one in the other.
package secrets
