// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestSandbox checks that the whole sandbox starts and closes.
func TestSandbox(t *testing.T) {
	if os.Getenv("PORTAL_TEST_WITHOUT_KUBE") != "" {
		t.Skip("PORTAL_TEST_WITHOUT_KUBE is set: no Kubernetes binaries wanted")
	}
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	out := &strings.Builder{}
	s, err := Start(ctx, Options{Dir: t.TempDir(), Out: out})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(s.Close()).To(Succeed()) })
	t.Log("\n" + out.String())

	t.Run("namespaces can be removed", func(t *testing.T) {
		g := NewWithT(t)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "passing"}}
		g.Expect(s.Client.Create(ctx, namespace)).To(Succeed())
		g.Expect(s.Client.Delete(ctx, namespace)).To(Succeed())
		g.Eventually(func() bool {
			return apierrors.IsNotFound(s.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace))
		}).WithTimeout(10 * time.Minute).Should(BeTrue())
	})
	t.Run("the manager can be killed, stopped and started", func(t *testing.T) {
		g := NewWithT(t)
		g.Expect(s.StartManager(ctx)).To(MatchError(ErrManagerRuns))
		s.KillManager()
		g.Expect(s.StartManager(ctx)).To(Succeed())
		s.StopManager()
		g.Expect(s.manager.Err()).NotTo(HaveOccurred(), "SIGTERM ends it in order")
		g.Expect(s.StartManager(ctx)).To(Succeed())
	})
	t.Run("close leaves no process", func(t *testing.T) {
		g := NewWithT(t)
		pids := s.PIDs()
		g.Expect(len(pids)).To(Equal(6), "two etcd, kube-apiserver, kube-controller-manager and two managers")
		g.Expect(s.Close()).To(Succeed())
		for _, pid := range pids {
			g.Expect(errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)).To(BeTrue(), "process %d is still there", pid)
		}
	})
}

func TestStartFailsCleanly(t *testing.T) {
	g := NewWithT(t)
	root := t.TempDir() // A checkout in which nothing has been built.
	_, err := Start(t.Context(), Options{Root: root, WithoutPortal: true})
	g.Expect(err).To(MatchError(ContainSubstring("make kube")))
	g.Expect(errors.Is(err, os.ErrNotExist)).To(BeTrue())
}
