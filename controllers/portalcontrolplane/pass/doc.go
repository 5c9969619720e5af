// SPDX-License-Identifier: Apache-2.0

// Package pass holds what every step of a pass over a PortalControlPlane reads: its objects, the identity that calls the portal, and
// the State that is stored. A step changes the State in two ways only: by a request to the portal (Start, Runner), or by Change.
//
// It also answers the question that several steps ask: does the portal have the cluster (existence.go)?
package pass
