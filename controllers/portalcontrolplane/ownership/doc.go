// SPDX-License-Identifier: Apache-2.0

// Package ownership answers whose a portal cluster is, so that none is lost and none is made twice.
//
//	owner.go     one PortalControlPlane owns a portal cluster. All others that name it change nothing
//	restored.go  an object with an earlier life (a clone, a restored backup) may have a portal cluster that it does not know, so it is held
//	deletion.go  a deletion that nobody meant is held
//	name.go      the names that the provider generates, by which a person and the provider recognize a portal cluster
//	identity.go  the portal clusters of a shared identity, which its users may not take from each other
//
// What happens in each event is in docs/development/ownership.md, which test/ownership writes.
package ownership
