// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
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

// pagesUser works on the portal's own pages, with a user of the same account.
var pagesUser = emulator.User{ID: "user-pages", Email: "pages@portal.example", Password: password, Role: emulator.RoleAdministrator}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }

func infraRef(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name}
}

// Manifest has the objects of a cluster, as clusterctl generate cluster writes them.
type Manifest struct {
	Identity      *corev1.Secret
	Cluster       *clusterv1.Cluster
	PortalCluster *infrav1.PortalCluster
	ControlPlane  *infrav1.PortalControlPlane
	Template      *infrav1.PortalMachineTemplate
	Workers       *clusterv1.MachineDeployment
}

// NewManifest returns the objects of a cluster with so many workers.
func NewManifest(workers int32) *Manifest {
	m := &Manifest{
		Identity: &corev1.Secret{ObjectMeta: named("identity"), Data: map[string][]byte{
			infrav1.IdentityBaseURL: []byte(portalURL), infrav1.IdentityEmail: []byte(email), infrav1.IdentityPassword: []byte(password),
		}},
		Cluster:       &clusterv1.Cluster{ObjectMeta: named(name)},
		PortalCluster: &infrav1.PortalCluster{ObjectMeta: named(name)},
		ControlPlane:  &infrav1.PortalControlPlane{ObjectMeta: named(name)},
		Template:      NewTemplate("a", "small"),
		Workers:       NewWorkers(name, workers),
	}
	m.Cluster.Spec.ControlPlaneRef, m.Cluster.Spec.InfrastructureRef = infraRef("PortalControlPlane", name), infraRef("PortalCluster", name)
	m.PortalCluster.Spec.IdentityRef = infrav1.PortalIdentityReference{Kind: "Secret", Name: "identity"}
	m.PortalCluster.Spec.ZoneID, m.PortalCluster.Spec.VPC.Name = "zone-1", "default"
	m.ControlPlane.Spec.Version, m.ControlPlane.Spec.Replicas = oldVersion, new(int32(1))
	return m
}

// objects of the manifest, in its order.
func (m *Manifest) objects() []client.Object {
	return []client.Object{m.Identity, m.Cluster, m.PortalCluster, m.ControlPlane, m.Template, m.Workers}
}

// NewWorkers returns a MachineDeployment whose template of machines is a.
func NewWorkers(called string, workers int32) *clusterv1.MachineDeployment {
	md := &clusterv1.MachineDeployment{ObjectMeta: named(called)}
	md.Spec.ClusterName, md.Spec.Replicas = name, &workers
	md.Spec.Template.Spec.ClusterName, md.Spec.Template.Spec.Version = name, oldVersion
	md.Spec.Template.Spec.Bootstrap.DataSecretName = new("")
	md.Spec.Template.Spec.InfrastructureRef = infraRef("PortalMachineTemplate", "a")
	return md
}

// NewTemplate returns a template of machines.
func NewTemplate(called, offering string) *infrav1.PortalMachineTemplate {
	t := &infrav1.PortalMachineTemplate{ObjectMeta: named(called)}
	t.Spec.Template.Spec = infrav1.WorkerParameters{ServiceOfferingID: offering, SSHKeyPair: "ops"}
	return t
}

// Apply creates the objects of the manifest that are not there, and their namespace.
func (w *World) Apply(m *Manifest) {
	w.Helper()
	for _, o := range append([]client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}, m.objects()...) {
		w.must(client.IgnoreAlreadyExists(w.client.Create(context.Background(), o)))
	}
}

// manifest returns the objects of a cluster at the world's portal.
func (w *World) manifest(workers int32) *Manifest {
	m := NewManifest(workers)
	m.Identity.Data[infrav1.IdentityBaseURL] = []byte(portalURL + w.Options.Portal.BasePath)
	m.Identity.Data[infrav1.IdentityTOTPSeed] = []byte(w.Options.Portal.Users[0].TOTPSeed)
	if w.CIDR != "" {
		m.PortalCluster.Spec.Network = &infrav1.PortalNetwork{CIDR: w.CIDR}
	}
	return m
}

// CreateCluster creates the objects of a cluster with so many workers.
func (w *World) CreateCluster(workers int32) {
	w.Helper()
	w.Apply(w.manifest(workers))
}

// CreateClusterAgain creates the objects of a cluster that go with it.
func (w *World) CreateClusterAgain() {
	w.Helper()
	m := w.manifest(0)
	for _, o := range []client.Object{m.Cluster, m.PortalCluster, m.ControlPlane} {
		w.Create(o)
	}
}

// checkHealth creates a MachineHealthCheck for all Machines, with how many seconds a Machine may wait for its node (0: forever).
func (w *World) checkHealth(startup int32, unhealthy ...clusterv1.UnhealthyNodeCondition) {
	w.Helper()
	check := &clusterv1.MachineHealthCheck{ObjectMeta: named(name)}
	check.Spec.ClusterName = name
	check.Spec.Selector.MatchLabels = map[string]string{clusterv1.ClusterNameLabel: name}
	check.Spec.Checks.NodeStartupTimeoutSeconds, check.Spec.Checks.UnhealthyNodeConditions = &startup, unhealthy
	w.Create(check)
}

func unhealthy(kind corev1.NodeConditionType, status corev1.ConditionStatus) clusterv1.UnhealthyNodeCondition {
	return clusterv1.UnhealthyNodeCondition{Type: kind, Status: status, TimeoutSeconds: new(int32(10))}
}

// CreateWorkers creates a MachineDeployment.
func (w *World) CreateWorkers(deployment string, replicas int32, version, template string) {
	w.Helper()
	md := NewWorkers(deployment, replicas)
	md.Spec.Template.Spec.Version, md.Spec.Template.Spec.InfrastructureRef.Name = version, template
	w.Create(md)
}

// CreateTemplate creates a template of machines.
func (w *World) CreateTemplate(name string) {
	w.Helper()
	w.Create(NewTemplate(name, "small"))
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
