// SPDX-License-Identifier: Apache-2.0

// Package metrics tells Prometheus how the provider and its portal accounts do. docs/metrics.md lists every metric; a test
// holds the page to this package.
//
// There are two sorts. What happens is counted when it happens, in portal.go: a request that is over, a login,
// a job that has ended. What is so is read when Prometheus asks: the accounts' rate limits from their governors
// (accounts.go), and the operations in flight from the annotations of the objects (operations.go). So nothing is left behind
// when an object or an account goes, and a manager that has just started tells the same as the one before it.
//
// Labels have few values, and none that the portal could make up: endpoints are templates without ids, and codes are those
// of the specification. An account is named by an identity Secret that uses it; e-mails and passwords are nowhere.
package metrics
