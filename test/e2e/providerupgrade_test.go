// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const (
	// previousVersion is the release before this one, built from its commit. As a pre-release, it is older than this release for
	// clusterctl.
	previousVersion = "v0.1.0-previous"
	previousImage   = "registry.example/capportal/cluster-api-provider-portal:" + previousVersion
	// pause is how long the test watches the new manager while the portal's jobs do not progress.
	pause = 45 * time.Second
)

// providerUpgraded checks that clusterctl upgrade apply replaces the previous release while one cluster is ready and another is being
// created. The upgrade sends no change to the portal and replaces no Machine. test/upgrade has all other phases.
func providerUpgraded(t *testing.T) {
	dir := filepath.Join(env.root, "bin", "previous")
	if _, err := os.Stat(filepath.Join(dir, "bin", "manager-built")); err != nil {
		t.Skip("the previous release is not built: run make previous")
	}
	g, today := NewWithT(t), env.clusterctl.provider
	g.Expect(previousRelease(t.Context(), dir)).To(Succeed())
	g.Expect(env.clusterctl.remove(t.Context(), env.home)).To(Succeed())
	g.Eventually(func() bool {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: providerNamespace}}
		return apierrors.IsNotFound(env.home.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace))
	}).WithTimeout(patience).WithPolling(time.Second).Should(BeTrue(), "namespace %s must be gone", providerNamespace)
	env.clusterctl.provider = providerName + ":" + previousVersion
	defer func() { env.clusterctl.provider = today }()
	_, err := env.clusterctl.run(t.Context(), env.home, nil, "init", "--infrastructure", env.clusterctl.provider, "--wait-providers")
	g.Expect(err).NotTo(HaveOccurred())

	ready, creating := prepareSubject(t), prepareSubject(t)
	creating.strike(emulator.Fault{Method: http.MethodPost, Path: createRoute, Job: emulator.JobStuck, Count: 1})
	ready.create(2)
	creating.apply(creating.generate("", 2))
	creating.Eventually(creating.job).ShouldNot(BeEmpty(), "the creation's job in the annotation")
	before := ready.holders()
	_, err = env.clusterctl.run(t.Context(), env.home, nil, "upgrade", "apply", "--infrastructure", today, "--wait-providers")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() string { return managerImage(t) }).WithTimeout(patience).WithPolling(time.Second).
		Should(Equal(env.provider.image), "the manager's image after clusterctl upgrade apply")
	time.Sleep(pause) // the new manager reconciles every object within the first seconds
	for _, s := range []*subject{ready, creating} {
		s.Expect(s.mutations(0)).To(HaveLen(1), "requests that change something")
	}
	ready.Expect(ready.holders()).To(Equal(before), "Machines and their Nodes")
	creating.Expect(env.portal.removeFault(t.Context(), creating.namespace)).To(Succeed())
	for _, s := range []*subject{ready, creating} {
		s.settled(2)
		s.Expect(s.mutations(0)).To(HaveLen(1), "requests of the whole life that change something")
		s.remove()
	}
}

// managerImage returns the image of the manager's only Pod.
func managerImage(t *testing.T) string {
	pods, err := env.home.pods(t.Context(), providerNamespace)
	if err != nil || len(pods) != 1 {
		return fmt.Sprintf("%d Pods, error %v", len(pods), err)
	}
	return pods[0].Spec.Containers[0].Image
}

// previousRelease builds and loads the image of the previous release, and adds its files to clusterctl's repository.
func previousRelease(ctx context.Context, dir string) error {
	dockerfile := filepath.Join(env.dir, "Dockerfile.previous")
	err := os.WriteFile(dockerfile, []byte("FROM scratch\nCOPY manager-built /manager\nUSER 65532:65532\nENTRYPOINT [\"/manager\"]\n"), 0o600)
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "docker", "build", "--quiet", "--tag", previousImage, "--file", dockerfile, filepath.Join(dir, "bin"))
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("image of the previous release: %w: %s", err, out)
	}
	if err := env.home.load(ctx, previousImage); err != nil {
		return err
	}
	manifests, err := exec.CommandContext(ctx, filepath.Join(env.root, "bin", "kustomize"), "build", filepath.Join(dir, "config", "default")).Output()
	if err != nil {
		return fmt.Errorf("manifests of the previous release: %w", err)
	}
	release := filepath.Join(env.dir, "infrastructure-"+providerName, previousVersion)
	failed := []error{
		os.MkdirAll(release, 0o755),
		os.WriteFile(filepath.Join(release, components), []byte(strings.ReplaceAll(string(manifests), "image: controller:latest", "image: "+previousImage)), 0o600),
	}
	for to, from := range map[string]string{"metadata.yaml": "metadata.yaml", "cluster-template.yaml": "templates/cluster-template.yaml"} {
		content, err := os.ReadFile(filepath.Join(dir, from))
		failed = append(failed, err, os.WriteFile(filepath.Join(release, to), content, 0o600))
	}
	return errors.Join(failed...)
}
