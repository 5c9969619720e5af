// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// TestVolumesRemain deletes a Cluster with volumes. Events on the Cluster and on its namespace name the volumes of the portal's driver, after
// the objects are gone. The volumes are only named: nothing asks the portal to delete them.
func TestVolumesRemain(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.apply()
	s.settled(2)
	for i, driver := range []string{"acme.csi.driver", "acme.csi.driver", "nfs.csi.example"} {
		s.Expect(s.Workload().Create(s.Context(), &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pv-", i)},
			Spec: corev1.PersistentVolumeSpec{
				Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
				AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: fmt.Sprint("volume-", i)}},
			},
		})).To(Succeed())
	}
	id := s.PortalClusters()[0].ID
	s.end()
	note := "2 of 2 volumes of portal cluster " + id + " remain at the portal and are billed. To delete them with their data: portalctl volumes delete volume-0 volume-1"
	s.Eventually(func() []string { return s.eventsAbout("Cluster", s.Namespace, name) }).Should(ContainElement(infrav1.EventVolumesRemain + ": " + note))
	s.Eventually(func() []string { return s.eventsAbout("Namespace", metav1.NamespaceDefault, s.Namespace) }).Should(ConsistOf(infrav1.EventVolumesRemain + ": " + note))
	t.Log(s.eventsAbout("Namespace", metav1.NamespaceDefault, s.Namespace))
	s.Expect(s.Changes()).To(Equal([]string{"POST kubernetes-clusters 202", "DELETE {cluster_id} 202"}))
}

// eventsAbout returns the events in a namespace about an object.
func (s *story) eventsAbout(kind, namespace, object string) (all []string) {
	s.Helper()
	list := &corev1.EventList{}
	s.Expect(s.Box.Client.List(s.Context(), list, client.InNamespace(namespace))).To(Succeed())
	for _, e := range list.Items {
		if e.InvolvedObject.Kind == kind && e.InvolvedObject.Name == object {
			all = append(all, e.Reason+": "+e.Message)
		}
	}
	return all
}
