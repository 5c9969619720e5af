// SPDX-License-Identifier: Apache-2.0

// Package facts states what package claims relies on in the behavior of Cluster API's core. Package capibehavior explains why. A fact is told
// once. test/world checks it in virtual time, and test/capibehavior on real servers.
//
// The comment of each group of facts names the functions of sigs.k8s.io/cluster-api v1.14.2 on which it rests. Their files are below
// core/reconcilers unless the comment says otherwise. Look there first if a fact fails.
package facts

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// Fact is one fact about core.
type Fact struct {
	// Name is also that of the namespace in which the fact is checked.
	Name string
	// status changes the status of the control plane, which is stable and managed externally.
	status func(*infrav1.PortalControlPlaneStatus)
	check  func(*fixture)
}

// All returns the facts, which begin with the number of their group.
func All() []Fact {
	return slices.Concat(whichMachineGoes, howMachineGoes, providerIDAndNodeRef, upToDate, preflight, remediation, takeover)
}

// Floor is where facts are checked: a management cluster with core and without this provider, and a workload cluster in which only core and the
// fact change Nodes. They may be one cluster.
type Floor interface {
	testing.TB
	// Management returns a client of the management cluster, in which the namespace of the fact exists.
	Management() client.Client
	// Workload returns a client of the workload cluster, and a kubeconfig for core.
	Workload() (client.Client, []byte)
	// Eventually is Gomega's Eventually. Core works while it waits.
	Eventually(actual any, intervals ...any) AsyncAssertion
	// Follow calls see with each object that exists and with each change, until the fact is checked.
	Follow(list client.ObjectList, see func(watch.Event), options ...client.ListOption)
}

// Check checks the fact.
func (fact Fact) Check(floor Floor) {
	floor.Helper()
	fact.check(newFixture(floor, fact))
}
