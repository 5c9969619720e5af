// SPDX-License-Identifier: Apache-2.0

// Package demo takes a cluster through its life in the sandbox, as a user would with clusterctl and kubectl: generate
// and apply, scale up and down, upgrade, delete. It announces its steps, with how long each of them took last time. It says what it waits for, what the provider says meanwhile, and how
// long each step took.
//
// Then it holds the portal's journal against what such a life needs: one create, two scales, one upgrade and one delete,
// no request refused, and no job polled more often than the portal's specification suggests.
package demo
