// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// Events of rows whose Cluster other rows use first.
const (
	lostCluster    = "the Cluster loses its finalizers while it is deleted"
	changedAccount = "the identity Secret gets a user of another portal account, which the next request about the portal cluster shows"
)

// changes make changes that users should not make, on purpose or by mistake.
func changes() []row {
	return []row{
		{
			event: "`kubectl replace` of the PortalControlPlane with its manifest", before: deletedNamespace, clusters: 1,
			happens: (*story).replaceControlPlane, sees: []sight{provisioned, available},
		}, {
			event: "`kubectl replace` of a PortalCluster that has a network by CIDR", clusters: 1,
			with:    func(s *story) { s.portalCluster.Spec.Network = &infrav1.PortalNetwork{CIDR: "10.20.0.0/24"} },
			happens: (*story).replacePortalCluster, sees: []sight{available},
		}, {
			event: "wrong UID in the owner reference of the PortalControlPlane", before: lostCluster, clusters: 1,
			happens: func(s *story) { misown(s, s.controlPlane) }, sees: []sight{provisioned},
		}, {
			event: "wrong UID in the owner reference of the PortalCluster", before: changedAccount, clusters: 1,
			happens: func(s *story) { misown(s, s.portalCluster) }, sees: []sight{provisioned},
		}, {
			event: "wrong UID in the owner reference of the MachineDeployment", before: deletedPortalMachine, clusters: 1,
			happens: func(s *story) { misown(s, s.deployment) },
			sees:    []sight{{kind: "MachineDeployment", condition: clusterv1.DeletingCondition, status: metav1.ConditionFalse}, provisioned},
		}, {
			event: lostCluster, clusters: 1,
			happens: (*story).loseCluster,
			sees:    []sight{{kind: "Cluster"}, {kind: "PortalControlPlane", condition: clusterv1.DeletingCondition, status: either}},
			after:   func(s *story) { s.Get(s.controlPlane) },
		}, {
			event: "the PortalControlPlane loses its finalizer", before: deletedDeployment, clusters: 1,
			happens: func(s *story) {
				suite.Change(s.Fixture, s.controlPlane, func(cp *infrav1.PortalControlPlane) { cp.Finalizers = nil })
				s.Eventually(func() bool {
					s.Get(s.controlPlane)
					return controllerutil.ContainsFinalizer(s.controlPlane, infrav1.ControlPlaneFinalizer)
				}).Should(BeTrue())
			},
			sees: []sight{provisioned, available},
		}, {
			event: changedAccount, clusters: 1,
			happens: (*story).changeAccount,
			sees: []sight{
				{kind: "PortalCluster", condition: infrav1.IdentityReadyCondition, status: either},
				{kind: "PortalControlPlane", condition: infrav1.ProvisionedCondition, status: either},
			},
		}, {
			event: "deletion of the Cluster while the identity Secret has such a user", clusters: 1,
			happens: func(s *story) { s.changeAccount(); s.delete(s.cluster) }, sees: []sight{held},
		}, {
			event: "a person deletes the cluster at the portal",
			happens: func(s *story) {
				_, err := s.person().DeleteCluster(s.Context(), s.id)
				s.Expect(err).NotTo(HaveOccurred())
			},
			sees: []sight{{kind: "PortalControlPlane", condition: infrav1.ProvisionedCondition, status: metav1.ConditionFalse}},
		},
	}
}

// replaceControlPlane replaces the whole object, as kubectl replace -f does: without spec.clusterID and without annotations.
func (s *story) replaceControlPlane() {
	current := &infrav1.PortalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}
	s.Get(current)
	s.compose()
	s.controlPlane.ResourceVersion = current.ResourceVersion
	err := box.Client.Update(s.Context(), s.controlPlane)
	s.Expect(err == nil || apierrors.IsInvalid(err) || apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
	s.Get(s.controlPlane)
}

// replacePortalCluster does the same with the PortalCluster. It tries again after a conflict.
func (s *story) replacePortalCluster() {
	s.Eventually(func() error {
		current := &infrav1.PortalCluster{}
		if err := box.Client.Get(s.Context(), client.ObjectKeyFromObject(s.portalCluster), current); err != nil {
			return err
		}
		manifest := &infrav1.PortalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name, ResourceVersion: current.ResourceVersion}, Spec: current.Spec}
		return box.Client.Update(s.Context(), manifest)
	}).Should(Succeed())
}

// misown gives an object an owner reference with a UID that no Cluster has, and waits for the garbage collector. In the meantime it pauses
// core's controller of the Cluster, and that of the MachineDeployment if this is the object: they would correct the reference.
func misown(s *story, o client.Object) {
	s.Helper()
	s.leaveAlone(true)
	if o == s.deployment {
		s.pause(o)
		defer suite.Change(s.Fixture, s.deployment, func(md *clusterv1.MachineDeployment) { delete(md.Annotations, clusterv1.PausedAnnotation) })
	}
	suite.Change(s.Fixture, o, func(o client.Object) {
		o.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: name, UID: uuid.NewUUID(),
		}})
	})
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) && o.GetDeletionTimestamp().IsZero() {
		time.Sleep(200 * time.Millisecond)
		if box.Client.Get(s.Context(), client.ObjectKeyFromObject(o), o) != nil {
			break
		}
	}
	s.leaveAlone(false)
}

// leaveAlone pauses or resumes only core's Cluster controller. It uses the annotation of the Cluster, because spec.paused would also pause all
// other controllers.
func (s *story) leaveAlone(on bool) {
	s.Helper()
	suite.Change(s.Fixture, s.cluster, func(c *clusterv1.Cluster) {
		delete(c.Annotations, clusterv1.PausedAnnotation)
		if on {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, clusterv1.PausedAnnotation, "")
		}
	})
	s.Eventually(func() bool { return isTrue(s, s.cluster, clusterv1.PausedCondition) }).Should(Equal(on))
}

// loseCluster deletes the Cluster and removes its finalizers before core can delete the objects of the Cluster.
func (s *story) loseCluster() {
	s.leaveAlone(true)
	s.delete(s.cluster)
	suite.Change(s.Fixture, s.cluster, func(c *clusterv1.Cluster) { c.Finalizers = nil })
}

// changeAccount puts the credentials of another account into the identity Secret.
func (s *story) changeAccount() {
	other := suite.User(provider, accounts.Next(s.T))
	suite.Change(s.Fixture, s.secret, func(secret *corev1.Secret) {
		secret.StringData = map[string]string{infrav1.IdentityEmail: other.Email, infrav1.IdentityPassword: other.Password}
	})
}
