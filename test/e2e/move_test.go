// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// moveThereAndBack: clusterctl takes everything along, credentials included, and the portal notices nothing. That the
// other side is in charge shows when it scales.
func moveThereAndBack(t *testing.T) {
	s := prepareSubject(t)
	s.apply(s.generate("", 2))
	var err error
	env.away, err = create(s.Context(), awayName)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(env.clusterctl.init(s.Context(), env.away)).To(Succeed())
	s.settled(2)
	machines := s.holders()

	booked := len(s.journal(s.Context()))
	s.moveTo(env.away)
	s.settled(2)
	s.Expect(s.holders()).To(Equal(machines), "Machines and the Nodes that they hold")
	s.Expect(s.mutations(booked)).To(BeEmpty(), "requests that change something, of the move")

	s.scaleTo(3)
	s.settled(3)
	s.Expect(s.mutations(booked)).To(HaveLen(1), "requests that change something, of a scale on the other side")
	machines, booked = s.holders(), len(s.journal(s.Context()))

	s.moveTo(env.home)
	s.settled(3)
	s.Expect(s.holders()).To(Equal(machines), "Machines and the Nodes that they hold")
	s.Expect(s.mutations(booked)).To(BeEmpty(), "requests that change something, of the way back")
	s.Expect(s.changes()).To(Equal([]string{"Creating", "Scaling size 2 → 3"}))
	s.remove()
}

// moveTo has clusterctl move the namespace. Nothing else is copied.
func (s *subject) moveTo(target *management) {
	s.Helper()
	source := s.at
	_, err := env.clusterctl.run(s.Context(), source, nil, "move", "--namespace", s.namespace, "--to-kubeconfig", target.kubeconfig)
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(s.left(s.Context(), source)).To(BeEmpty(), "what has stayed behind")
	s.at = target
	s.Expect(s.at.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: identityName}, &corev1.Secret{})).To(Succeed())
}
