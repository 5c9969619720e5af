// SPDX-License-Identifier: Apache-2.0

// Package demo takes a cluster through its life in the sandbox, as a user would with clusterctl and kubectl: generate and apply, scale up
// and down, upgrade, delete. It announces its steps, with the time that each took last time. During a step it prints what it waits for and
// what the provider reports, and afterwards how long the step took.
//
// With [Options.Record] it writes what the sandbox's page showed to a file, which cmd/portal-player plays.
//
// At the end it compares the portal's request log with the requests that such a life needs: one create, three scales, one upgrade and one
// delete, no refused request, and no job that was polled more often than the portal's specification suggests.
package demo
