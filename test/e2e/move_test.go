// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// moveThereAndBack checks that clusterctl moves all objects, including the credentials, without a change at the portal. A scale after the
// move shows that the other management cluster is in charge. The last move happens while a Machine is being deleted.
func moveThereAndBack(t *testing.T) {
	s := prepareSubject(t)
	s.apply(s.generate("", 2))
	var err error
	env.away, err = create(s.Context(), awayName)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(env.clusterctl.init(s.Context(), env.away)).To(Succeed())
	s.settled(2)
	machines := s.holders()

	booked := len(s.requestLog(s.Context()))
	s.moveTo(env.away)
	s.settled(2)
	s.Expect(s.holders()).To(Equal(machines), "Machines and the Nodes that they hold")
	s.Expect(s.mutations(booked)).To(BeEmpty(), "requests by the move that change something")

	s.scaleTo(3)
	s.settled(3)
	s.Expect(s.mutations(booked)).To(HaveLen(1), "requests by a scale after the move that change something")
	machines, booked = s.holders(), len(s.requestLog(s.Context()))

	s.moveTo(env.home)
	s.settled(3)
	s.Expect(s.holders()).To(Equal(machines), "Machines and the Nodes that they hold")
	s.Expect(s.mutations(booked)).To(BeEmpty(), "requests by the move back that change something")

	// Move again while a Machine is being deleted. clusterctl does not copy the deletion.
	s.holdDrains(true)
	s.scaleTo(2)
	s.Eventually(s.says(infrav1.WorkersReadyCondition)).Should(ContainSubstring(infrav1.DrainingReason))
	booked = len(s.requestLog(s.Context()))
	s.moveTo(env.away)
	s.Eventually(s.says(infrav1.WorkersReadyCondition)).Should(ContainSubstring(infrav1.DrainingReason))
	s.Expect(s.mutations(booked)).To(BeEmpty(), "requests by a move during a scale that change something")
	s.holdDrains(false)
	s.settled(2)
	s.Expect(s.changes()).To(Equal([]string{"Creating", "Scaling size 2 → 3", "Scaling size 3 → 2"}))
	s.remove()
}

// holdDrains adds or removes a hook that makes core wait before it drains a Machine.
func (s *subject) holdDrains(on bool) {
	s.Helper()
	const hook = clusterv1.PreDrainDeleteHookAnnotationPrefix + "/e2e"
	machines := &clusterv1.MachineList{}
	s.Expect(s.at.List(s.Context(), machines, s.mine()...)).To(Succeed())
	for i := range machines.Items {
		change(s, &machines.Items[i], func(m *clusterv1.Machine) {
			delete(m.Annotations, hook)
			if on {
				metav1.SetMetaDataAnnotation(&m.ObjectMeta, hook, "")
			}
		})
	}
}

// moveTo has clusterctl move the namespace. The test copies nothing else.
func (s *subject) moveTo(target *management) {
	s.Helper()
	source := s.at
	_, err := env.clusterctl.run(s.Context(), source, nil, "move", "--namespace", s.namespace, "--to-kubeconfig", target.kubeconfig)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.left(s.Context(), source)).To(BeEmpty(), "objects left on the source cluster")
	s.at = target
	s.Expect(s.at.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: identityName}, &corev1.Secret{})).To(Succeed())
}
