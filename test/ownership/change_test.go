// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// changes make changes that users should not make, on purpose or by mistake.
func changes() []row {
	return []row{
		{
			event: "wrong UID in the owner reference of the PortalControlPlane", before: deletedNamespace, clusters: 1,
			happens: func(s *story) { misown(s, s.controlPlane) }, sees: []sight{provisioned},
		}, {
			event: "wrong UID in the owner reference of the PortalCluster", before: deletedNamespace, clusters: 1,
			happens: func(s *story) { misown(s, s.portalCluster) }, sees: []sight{provisioned},
		}, {
			event: "wrong UID in the owner reference of the MachineDeployment", before: deletedNamespace, clusters: 1,
			happens: func(s *story) { misown(s, s.deployment) },
			sees:    []sight{{kind: "MachineDeployment", condition: clusterv1.DeletingCondition, status: metav1.ConditionFalse}, provisioned},
		},
	}
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
