// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// The names and versions of lives.
const (
	namespace, name = "team", "prod"
	portalURL       = "https://portal.example.com"
	email, password = "owner@portal.example", "a password"
	oldVersion      = "v1.35.6"
	newVersion      = "v1.36.3"
)

var key = client.ObjectKey{Namespace: namespace, Name: name}

// Patience bounds each step of a life, in virtual time. It is longer than any job, drain and backoff together.
const Patience = 2 * time.Hour

// QuickPortal are options of a portal whose jobs take about a minute.
func QuickPortal() emulator.Options {
	return emulator.Options{
		Durations: emulator.Durations{Create: time.Minute, Scale: 30 * time.Second, Upgrade: time.Minute, Delete: 30 * time.Second, Spread: 0.2},
		Users:     []emulator.User{{Email: email, Password: password, Role: emulator.RoleAdministrator}},
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }

func infraRef(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name}
}

// CreateCluster creates the objects of a cluster with so many workers, as clusterctl generate cluster writes them.
func (w *World) CreateCluster(workers int32) {
	w.Helper()
	w.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	w.Create(&corev1.Secret{ObjectMeta: named("identity"), Data: map[string][]byte{
		infrav1.IdentityBaseURL: []byte(portalURL), infrav1.IdentityEmail: []byte(email), infrav1.IdentityPassword: []byte(password),
	}})
	c := &clusterv1.Cluster{ObjectMeta: named(name)}
	c.Spec.ControlPlaneRef, c.Spec.InfrastructureRef = infraRef("PortalControlPlane", name), infraRef("PortalCluster", name)
	w.Create(c)
	pc := &infrav1.PortalCluster{ObjectMeta: named(name)}
	pc.Spec.IdentityRef = infrav1.PortalIdentityReference{Kind: "Secret", Name: "identity"}
	pc.Spec.ZoneID, pc.Spec.VPC.Name = "zone-1", "default"
	w.Create(pc)
	cp := &infrav1.PortalControlPlane{ObjectMeta: named(name)}
	cp.Spec.Version, cp.Spec.Replicas = oldVersion, new(int32(1))
	w.Create(cp)
	w.CreateTemplate("a")
	md := &clusterv1.MachineDeployment{ObjectMeta: named(name)}
	md.Spec.ClusterName, md.Spec.Replicas = name, &workers
	md.Spec.Template.Spec.ClusterName, md.Spec.Template.Spec.Version = name, oldVersion
	md.Spec.Template.Spec.Bootstrap.DataSecretName = new("")
	md.Spec.Template.Spec.InfrastructureRef = infraRef("PortalMachineTemplate", "a")
	w.Create(md)
}

// CreateTemplate creates a template of machines.
func (w *World) CreateTemplate(name string) {
	w.Helper()
	t := &infrav1.PortalMachineTemplate{ObjectMeta: named(name)}
	t.Spec.Template.Spec.ServiceOfferingID, t.Spec.Template.Spec.SSHKeyPair = "small", "ops"
	w.Create(t)
}

// Scale sets the replicas of the MachineDeployment.
func (w *World) Scale(replicas int32) {
	w.Helper()
	Edit(w, key, &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &replicas })
}

// Machines of the cluster.
func (w *World) Machines() []*clusterv1.Machine {
	return list[clusterv1.Machine](w, w.management, schema.GroupResource{Group: clusterv1.GroupVersion.Group, Resource: "machines"})
}

// nodes of the only workload cluster that there is.
func (w *World) nodes() []*corev1.Node {
	for _, one := range w.workloads.all {
		return list[corev1.Node](w, one.server, schema.GroupResource{Resource: "nodes"})
	}
	return nil
}

// Runs says what is missing until so many Machines run the version on as many nodes, one to one.
func (w *World) Runs(n int, version string) func() string {
	return func() string {
		machines, nodes := w.Machines(), w.nodes()
		if len(machines) != n || len(nodes) != n+1 {
			return fmt.Sprintf("%d Machines, %d Nodes", len(machines), len(nodes))
		}
		used := map[string]bool{}
		for _, m := range machines {
			node := m.Status.NodeRef.Name
			if m.Status.Phase != string(clusterv1.MachinePhaseRunning) || m.Spec.Version != version || node == "" || used[node] {
				return fmt.Sprintf("Machine %s: %s %s %s", m.Name, m.Status.Phase, m.Spec.Version, node)
			}
			used[node] = true
		}
		for _, node := range nodes {
			if node.Spec.Unschedulable || node.Status.NodeInfo.KubeletVersion != version {
				return fmt.Sprintf("Node %s: unschedulable %t, %s", node.Name, node.Spec.Unschedulable, node.Status.NodeInfo.KubeletVersion)
			}
		}
		md := &clusterv1.MachineDeployment{}
		w.Get(key, md)
		size := w.Portal.Clusters()[0].Size
		if md.Status.ObservedGeneration != md.Generation || md.Status.UpToDateReplicas == nil || *md.Status.UpToDateReplicas != int32(n) || size != n {
			return fmt.Sprintf("MachineDeployment %d of %d, %v up to date, portal size %d", md.Status.ObservedGeneration, md.Generation, md.Status.UpToDateReplicas, size)
		}
		return ""
	}
}

// Killed are the Pods that the portal removed with their nodes, apart from deletions of clusters.
func (w *World) Killed() (pods []string) {
	for _, e := range w.Portal.RequestLog() {
		if e.Removal != nil {
			pods = append(pods, e.Removal.Pods...)
		}
	}
	return pods
}

// Left says what is left after the deletion, apart from what users wrote for themselves.
func (w *World) Left() string {
	all, _ := w.management.store.list("/")
	for _, u := range all {
		switch kind := u.GetKind(); {
		case kind == "CustomResourceDefinition", kind == "Namespace", kind == "PortalMachineTemplate", kind == "Secret" && u.GetName() == "identity":
		default:
			return fmt.Sprintf("%s %s is left", kind, u.GetName())
		}
	}
	if clusters := w.Portal.Clusters(); len(clusters) > 0 {
		return fmt.Sprintf("portal cluster %s is left", clusters[0].Name)
	}
	return ""
}
