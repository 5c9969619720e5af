// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// Requests that change something, in the format of Changes.
const (
	network  = "POST networks 201"
	creation = "POST kubernetes-clusters 202"
	scale    = "POST scale 202"
	update   = "POST upgrade 202"
	deletion = "DELETE {cluster_id} 202"
	lost     = "POST kubernetes-clusters 0"
)

// holdHook keeps Machines from being deleted until the test removes it.
const holdHook = clusterv1.PreDrainDeleteHookAnnotationPrefix + "/upgrade-test"

// phase is the operation of a cluster while the provider is upgraded.
type phase struct {
	name string
	// fault strikes the phase's first request, or the job of that request.
	fault *emulator.Fault
	// fresh is true if the phase begins with the creation of the cluster. Otherwise it begins with ready workers.
	fresh bool
	// with prepares the objects before they are created.
	with func(*life)
	// begin brings the cluster into the phase, which lasts until release is called.
	begin func(*life)
	// release ends the phase, in addition to the end of the fault.
	release func(*life)
	// ended waits until the phase has ended.
	ended func(*life)
	// asked lists all requests that change something at the portal, from the first one to the end of the phase.
	asked []string
	// rolls is true if the phase replaces Machines regardless of the provider's release.
	rolls bool
}

func (p phase) user() emulator.User {
	return emulator.User{
		ID: p.name, Email: p.name + "@portal.example", Password: "password of " + p.name, Account: p.name, Role: emulator.RoleAdministrator,
	}
}

// stuck returns a fault that makes the job of a request run until the fault is removed.
func stuck(method, path string) *emulator.Fault {
	return &emulator.Fault{Method: method, Path: path, Job: emulator.JobStuck, Count: 1}
}

func phases() []phase {
	return []phase{
		{
			name: "ready", with: func(l *life) { l.PortalCluster.Spec.Network = &infrav1.PortalNetwork{CIDR: "10.30.0.0/24"} },
			begin: (*life).classes, ended: func(l *life) { l.settled(2) },
			asked: []string{network, creation},
		}, {
			name: "creating", fresh: true, fault: stuck("POST", "/kubernetes-clusters"),
			begin: func(l *life) { l.accepted("create") }, ended: func(l *life) { l.settled(2) },
			asked: []string{creation},
		}, {
			name: "held", fresh: true, fault: &emulator.Fault{Method: "POST", Path: "/kubernetes-clusters", Cut: true, Count: 1},
			begin: func(l *life) { l.sees(infrav1.ProvisionedCondition, infrav1.OutcomeUnknownReason) },
			ended: func(l *life) { l.sees(infrav1.ProvisionedCondition, infrav1.OutcomeUnknownReason) },
			asked: []string{lost},
		}, {
			name: "growing", fault: stuck("POST", "/kubernetes-clusters/*/scale"),
			begin: func(l *life) { l.replicas(3); l.accepted("scale"); l.live(3) }, ended: func(l *life) { l.settled(3) },
			asked: []string{creation, scale},
		}, {
			name: "shrinking", fault: stuck("POST", "/kubernetes-clusters/*/scale"),
			begin: func(l *life) { l.replicas(1); l.accepted("scale"); l.live(1) }, ended: func(l *life) { l.settled(1) },
			asked: []string{creation, scale},
		}, {
			// Of nodes that are of the same age, the two releases may expect different ones to go.
			name:    "draining",
			begin:   func(l *life) { l.replicas(3); l.settled(3); l.addHooks(); l.replicas(2); l.live(2) },
			release: (*life).removeHooks, ended: func(l *life) { l.settled(2) },
			asked: []string{creation, scale, scale},
		}, {
			name: "upgrading", fault: stuck("POST", "/kubernetes-clusters/*/upgrade"),
			begin: func(l *life) { l.version("v1.36.3"); l.accepted("upgrade") },
			ended: func(l *life) { l.settled(2); l.runs("v1.36.3") },
			asked: []string{creation, update},
		}, {
			name:    "rolling",
			begin:   func(l *life) { l.addHooks(); l.rollOut(); l.deletingMachine() },
			release: (*life).removeHooks, ended: func(l *life) { l.settled(2); l.rolledOut() },
			asked: []string{creation}, rolls: true,
		}, {
			name: "deleting", fault: stuck("DELETE", "/kubernetes-clusters/*"),
			begin: func(l *life) { l.delete(); l.accepted("delete") }, ended: (*life).gone,
			asked: []string{creation, deletion},
		},
	}
}
