// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// restores lose the management cluster and restore the namespace in another one, while the portal cluster runs.
func restores() []row {
	return []row{
		{
			event:   "restore without owner references",
			happens: func(s *rowTale) { d := s.Dump().withoutOwners(); s.Lose(); s.Load(d) },
			sees:    []sight{deleting, available}, after: (*rowTale).secretHasOwner,
		}, {
			event:   "restore by Velero: no owner references, no status, the Cluster last",
			happens: func(s *rowTale) { d := s.Dump().asVelero(); s.Lose(); s.Load(d) },
			sees:    []sight{deleting, available}, after: (*rowTale).secretHasOwner,
		}, {
			event: "restore from a backup that is older than the portal cluster",
			happens: func(s *rowTale) {
				d := s.Dump().withoutOwners().withoutStatus().manifest("Secret").beforeCreation()
				s.Lose()
				s.Load(d)
			},
			sees: []sight{{kind: "Cluster", condition: clusterv1.ClusterInfrastructureReadyCondition}, provisioned},
		}, {
			event: "restore from the manifest with `spec.clusterID`", happens: (*rowTale).adopt,
			sees: []sight{deleting, available},
			after: func(s *rowTale) {
				Equal(s.World, "policy of an adopted cluster", read(s.World, theControl()).Spec.DeletionPolicy, infrav1.DeletionPolicyRetain)
			},
		}, {
			event:   "deletion of the Cluster after such a restore, which sets `Retain`",
			happens: func(s *rowTale) { s.adopt(); s.Settle(2); s.Delete(theCluster()) },
			sees:    []sight{noCluster, noControl},
		},
	}
}

// beforeCreation is the dump without what the provider writes when the portal has accepted the creation.
func (d Dump) beforeCreation() Dump {
	return d.change(func(o *unstructured.Unstructured) {
		if o.GetKind() != "PortalControlPlane" {
			return
		}
		annotations := o.GetAnnotations()
		delete(annotations, infrav1.OperationAnnotation)
		delete(annotations, infrav1.RecordAnnotation)
		o.SetAnnotations(annotations)
		unstructured.RemoveNestedField(o.Object, "spec", "clusterID")
		unstructured.RemoveNestedField(o.Object, "spec", "controlPlaneEndpoint")
	})
}

// adopt loses all objects and applies the manifest again, with the id of the portal cluster.
func (s *rowTale) adopt() {
	s.Lose()
	m := NewManifest(2)
	m.ControlPlane.Spec.ClusterID = s.id
	s.Apply(m)
}

// secretHasOwner checks that the Secret with the kubeconfig does not outlive the Cluster.
func (s *rowTale) secretHasOwner() {
	secret := read(s.World, &corev1.Secret{ObjectMeta: named(name + suffix)})
	Equal(s.World, "the kubeconfig Secret has an owner", metav1.GetControllerOf(secret) != nil, true)
}

// clones copy the manifest of a running Cluster, as `kubectl get -o yaml` shows it, and ask for another number of workers.
func clones() []row {
	return []row{
		{
			event: "clone in the same namespace, annotations included", happens: func(s *rowTale) { s.clone(namespace, "clone") },
			sees:  []sight{{kind: "PortalControlPlane", name: "clone", condition: infrav1.ProvisionedCondition}, available},
			after: func(s *rowTale) { s.removeClone(namespace, "clone") },
		}, {
			event: "clone into another namespace, annotations included", happens: func(s *rowTale) { s.clone("other", name) },
			sees:  []sight{{kind: "PortalControlPlane", namespace: "other", condition: infrav1.ProvisionedCondition}, available},
			after: func(s *rowTale) { s.removeClone("other", name) },
		},
	}
}

func (s *rowTale) clone(into, called string) {
	kinds := []string{}
	if into != namespace {
		s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: into}})
		kinds = append(kinds, "Secret")
	}
	s.Load(s.Dump().withoutOwners().withoutStatus().manifest(kinds...).renamed(called).change(func(o *unstructured.Unstructured) {
		o.SetNamespace(into)
		o.SetFinalizers(nil)
		if o.GetKind() == "MachineDeployment" {
			s.must(unstructured.SetNestedField(o.Object, int64(3), "spec", "replicas"))
		}
	}))
}

func (s *rowTale) removeClone(namespace, called string) {
	clone := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: called}}
	s.Delete(clone)
	s.Gone(clone)
	s.Let(time.Hour)
	s.See(theCluster(), clusterv1.ClusterAvailableCondition, "True")
}

// deletions delete one object of a Cluster.
func deletions() []row {
	first := func(kind string) func(*rowTale) {
		return func(s *rowTale) {
			all := s.Dump()
			for _, o := range all {
				if o.GetKind() == kind {
					s.Delete(o)
					return
				}
			}
			s.Fatal("no " + kind)
		}
	}
	settles := func(s *rowTale) { s.Settle(2) }
	deploymentGone := sight{kind: "MachineDeployment"}
	return []row{
		{event: "`kubectl delete cluster`", happens: first("Cluster"), sees: []sight{noCluster, noControl}},
		{event: "`kubectl delete portalcontrolplane`", happens: first("PortalControlPlane"), sees: []sight{noControl, available}},
		{
			event: "`kubectl delete portalcluster`", happens: first("PortalCluster"),
			sees: []sight{{kind: "PortalCluster", condition: clusterv1.DeletingCondition}, provisioned},
		}, {
			event:   "`kubectl delete machinedeployment` of the only one. The provider removes workers until it is gone",
			happens: func(s *rowTale) { s.Spare(6); first("MachineDeployment")(s) }, sees: []sight{deploymentGone, provisioned},
		},
		{event: "`kubectl delete machineset`", happens: first("MachineSet"), sees: []sight{available}, after: settles},
		{event: "`kubectl delete machine`", happens: first("Machine"), sees: []sight{available}, after: settles},
		{
			event:   "`kubectl delete portalmachine`. Its Machine stays, and a person deletes it",
			happens: (*rowTale).replaceMachine, sees: []sight{provisioned, available},
		},
		{event: "`kubectl delete portalmachinetemplate`", happens: first("PortalMachineTemplate"), sees: []sight{available}},
		{
			event: "`kubectl delete secret` of the kubeconfig", sees: []sight{available}, after: (*rowTale).secretHasOwner,
			happens: func(s *rowTale) { s.Delete(&corev1.Secret{ObjectMeta: named(name + suffix)}) },
		}, {
			event: "`kubectl delete secret` of the identity", sees: []sight{available, {kind: "PortalCluster", condition: infrav1.IdentityReadyCondition}},
			happens: func(s *rowTale) { s.Delete(&corev1.Secret{ObjectMeta: named("identity")}) },
			after:   func(s *rowTale) { read(s.World, &corev1.Secret{ObjectMeta: named("identity")}) },
		},
	}
}

// replaceMachine deletes a PortalMachine, and then its Machine, which core has lost. The next Machine gets the Node.
func (s *rowTale) replaceMachine() {
	lost := s.Machines()[0]
	s.Delete(&infrav1.PortalMachine{ObjectMeta: named(lost.Spec.InfrastructureRef.Name)})
	s.See(theCluster(), clusterv1.ClusterAvailableCondition, "False")
	s.Delete(lost)
	s.Settle(2)
}

// changes end a manager, or change what users should not change.
func changes() []row {
	return []row{
		{event: "the provider is reinstalled, its CRDs stay", happens: func(s *rowTale) { s.Restart() }, sees: []sight{deleting, available}},
		{event: "Cluster API is reinstalled, its CRDs stay", happens: func(s *rowTale) { s.RestartCore(time.Minute) }, sees: []sight{deleting, available}},
		{event: "`kubectl replace` of the PortalControlPlane with its manifest", happens: (*rowTale).replaceControlPlane, sees: []sight{provisioned, available}},
		{
			event:   "`kubectl replace` of a PortalCluster that has a network by CIDR",
			with:    func(m *Manifest) { m.PortalCluster.Spec.Network = &infrav1.PortalNetwork{CIDR: "10.20.0.0/24"} },
			happens: (*rowTale).replacePortalCluster, sees: []sight{available},
		}, {
			event: "the Cluster loses its finalizers while it is deleted", sees: []sight{noCluster, deleting},
			happens: func(s *rowTale) {
				Edit(s.World, key, theCluster(), func(c *clusterv1.Cluster) {
					metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterv1.PausedAnnotation, "")
				})
				s.See(theCluster(), clusterv1.PausedCondition, "True")
				s.Delete(theCluster())
				Edit(s.World, key, theCluster(), func(c *clusterv1.Cluster) { c.Finalizers = nil })
			},
		}, {
			event: "the PortalControlPlane loses its finalizer",
			happens: func(s *rowTale) {
				Edit(s.World, key, theControl(), func(cp *infrav1.PortalControlPlane) { cp.Finalizers = nil })
			},
			sees: []sight{provisioned, available},
			after: func(s *rowTale) {
				Equal(s.World, "finalizers", strings.Join(read(s.World, theControl()).Finalizers, " "), infrav1.ControlPlaneFinalizer)
			},
		}, {
			event: "the identity Secret gets a user of another portal account, which the next request about the portal cluster shows",
			sees:  []sight{{kind: "PortalCluster", condition: infrav1.IdentityReadyCondition}, provisioned}, happens: (*rowTale).changeAccount,
		}, {
			event:   "deletion of the Cluster while the identity Secret has such a user",
			happens: func(s *rowTale) { s.changeAccount(); s.Delete(theCluster()) }, sees: []sight{deleting},
		}, {
			event: "a person deletes the cluster at the portal", sees: []sight{provisioned},
			happens: func(s *rowTale) {
				_, err := s.pages().DeleteCluster(context.Background(), s.id)
				s.must(err)
				s.begin = len(s.Portal.RequestLog())
			},
		},
	}
}

// replaceControlPlane replaces the whole object, as kubectl replace -f does: without spec.clusterID and without annotations.
func (s *rowTale) replaceControlPlane() {
	manifest := NewManifest(2).ControlPlane
	manifest.ResourceVersion = read(s.World, theControl()).ResourceVersion
	if err := s.client.Update(context.Background(), manifest); !apierrors.IsInvalid(err) {
		s.must(err)
	}
}

// replacePortalCluster does the same with the PortalCluster, which keeps its spec.
func (s *rowTale) replacePortalCluster() {
	current := read(s.World, thePortalCluster())
	s.must(s.client.Update(context.Background(), &infrav1.PortalCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: current.ResourceVersion}, Spec: current.Spec,
	}))
}

// changeAccount puts the credentials of another account into the identity Secret.
func (s *rowTale) changeAccount() {
	Edit(s.World, client.ObjectKey{Namespace: namespace, Name: "identity"}, &corev1.Secret{}, func(secret *corev1.Secret) {
		secret.Data[infrav1.IdentityEmail], secret.Data[infrav1.IdentityPassword] = []byte(otherUser.Email), []byte(otherUser.Password)
	})
}
