// SPDX-License-Identifier: Apache-2.0

// Package lifecycle answers whether there is a portal cluster, and of which version: it creates the portal cluster once (create.go), upgrades
// it (upgrade.go, to a version that the portal offers: offers.go), and deletes it (delete.go). It polls the operation in flight (operation.go).
//
// The states of a portal cluster, and what can interrupt them:
//
//	nothing ─▶ named ─▶ creating ─▶ running ⇄ upgrading │ scaling ─▶ deleting ─▶ gone
//
//	named       the name is in spec, so a person can find the cluster at the portal in every later state
//	creating    a crash between the request and its answer ends in a held operation, never in a second cluster
//	running     before an upgrade is sent, a look at the workload cluster names what may stop it (precheck). The user may want that to hold
//	            the upgrade. A scale-down whose drains have begun comes first
//	upgrading,
//	scaling     when the job has failed, the nodes show whether the portal has worked on them (RecordWork), which decides when the request is
//	            sent again (operation/brake.go). Nodes that the portal left cordoned become schedulable (cordoned.go)
//	            a lost answer counts as running until the nodes show that it is done (settleUpgrade), or until the portal accepts or
//	            refuses the next request. A person can abandon the operation
//	deleting    possible from every state. It waits for a running operation, unless that is a stuck or lost scale or upgrade. While
//	            the Cluster or the control plane is being deleted, nothing is scaled, and the hooks on Machines are removed at once.
//	            If its job is stuck or lost, it ends when the portal does not know the cluster any more
//	gone        a 404 counts only under the portal user that created the cluster. If the deletion was not requested here, a person
//	            may set the id of another cluster, which leads back to running
package lifecycle

import (
	"github.com/capportal/cluster-api-provider-portal/controllers/portalcontrolplane/ownership"
	"github.com/capportal/cluster-api-provider-portal/controllers/shared/outcome"
)

// Clusters creates, upgrades and deletes portal clusters.
type Clusters struct {
	Ownership *ownership.Owners
	// Answers of portals that count for several portal clusters.
	Answers *outcome.Answers
}
