// SPDX-License-Identifier: Apache-2.0

// Package ownership answers whose a portal cluster is, so that none is lost and none is made twice.
//
//	owner.go     one PortalControlPlane owns a portal cluster, and all others that name it change nothing
//	restored.go  an object with an earlier life (a clone, a restored backup) may have a portal cluster that it does not know, so it is held.
//	             By the names that the provider generates, a person and the provider recognize a portal cluster
//	deletion.go  a deletion that nobody meant is held
//
// What happens in each event is in docs/development/ownership.md, which test/ownership writes.
package ownership
