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
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
)

const (
	// previousVersion is the release before this one, built from its commit. As a pre-release, it is older than this release for
	// clusterctl.
	previousVersion = "v0.1.0-previous"
	previousImage   = "registry.example/capportal/cluster-api-provider-portal:" + previousVersion
	// pause is how long the test watches the new manager while the portal's jobs do not progress.
	pause = 45 * time.Second
)

// providerUpgraded checks that clusterctl upgrade apply replaces the previous release while clusters are in every phase. The portal's
// request log shows that the upgrade sends no change to the portal.
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

	all := situations()
	for _, p := range all {
		t.Run("before/"+p.name, func(t *testing.T) { p.subject = prepareSubject(t); p.first(); p.apply(p.generate("", 2)) })
	}
	for _, p := range all {
		t.Run("phase/"+p.name, func(t *testing.T) { p.adopt(t); p.enter() })
	}
	if t.Failed() {
		return
	}
	_, err = env.clusterctl.run(t.Context(), env.home, nil, "upgrade", "apply", "--infrastructure", today, "--wait-providers")
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() string { return managerImage(t) }).WithTimeout(patience).WithPolling(time.Second).
		Should(Equal(env.provider.image), "the manager's image after clusterctl upgrade apply")
	time.Sleep(pause) // the new manager reconciles every object within the first seconds
	for _, p := range all {
		t.Run("standing/"+p.name, func(t *testing.T) { p.adopt(t); p.unchanged() })
	}
	for _, p := range all {
		t.Run("after/"+p.name, func(t *testing.T) { p.adopt(t); p.leave() })
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

// situation is the phase of a cluster while the provider is upgraded.
type situation struct {
	*subject
	name string
	// fault makes the phase last. It strikes the creation if fresh is set, and otherwise the operation that begin starts.
	fault *emulator.Fault
	fresh bool
	begin func(*subject)
	live  int // number of Machines that are not being deleted in the phase, if begin changes it
	ended func(*subject)
	asked int // requests of the whole life that change something

	machines []string
	before   int // length of the request log at the upgrade
}

func situations() []*situation {
	stuck := func(method, path string) *emulator.Fault {
		return &emulator.Fault{Method: method, Path: path, Job: emulator.JobStuck, Count: 1}
	}
	settled := func(workers int) func(*subject) { return func(s *subject) { s.settled(workers) } }
	return []*situation{
		{name: "ready", ended: settled(2), asked: 1},
		{name: "creating", fresh: true, fault: stuck(http.MethodPost, createRoute), ended: settled(2), asked: 1},
		{
			name: "held", fresh: true, fault: &emulator.Fault{Method: http.MethodPost, Path: createRoute, Cut: true, Count: 1},
			ended: retried, asked: 2,
		},
		{
			name: "growing", fault: stuck(http.MethodPost, createRoute+"/*/scale"),
			begin: func(s *subject) { s.scaleTo(3) }, live: 3, ended: settled(3), asked: 2,
		}, {
			name: "shrinking", fault: stuck(http.MethodPost, createRoute+"/*/scale"),
			begin: func(s *subject) { s.scaleTo(1) }, live: 1, ended: settled(1), asked: 2,
		}, {
			name: "upgrading", fault: stuck(http.MethodPost, createRoute+"/*/upgrade"),
			begin: func(s *subject) {
				change(s, &infrav1.PortalControlPlane{}, func(c *infrav1.PortalControlPlane) { c.Spec.Version = newerVersion })
			},
			ended: func(s *subject) {
				s.Eventually(func() (string, error) { return s.notAt(s.Context(), newerVersion) }).Should(BeEmpty())
				s.settled(2)
			}, asked: 2,
		}, {
			name: "deleting", fault: stuck(http.MethodDelete, createRoute+"/*"),
			begin: (*subject).delete, ended: (*subject).gone, asked: 2,
		},
	}
}

// adopt makes the situation's subject use another subtest.
func (p *situation) adopt(t *testing.T) {
	s := *p.subject
	s.T, s.WithT = t, NewWithT(t)
	s.SetDefaultEventuallyTimeout(patience)
	s.SetDefaultEventuallyPollingInterval(300 * time.Millisecond)
	p.subject = &s
	t.Cleanup(s.explain)
}

// retried checks that this release holds the operation that the previous release held, and creates the cluster when a person allows a
// retry.
func retried(s *subject) {
	s.Expect(s.says(infrav1.ProvisionedCondition)()).To(HavePrefix("False " + infrav1.OutcomeUnknownReason))
	change(s, &infrav1.PortalControlPlane{}, func(c *infrav1.PortalControlPlane) {
		state, err := operation.Load(c)
		s.Expect(err).NotTo(HaveOccurred())
		c.Annotations[infrav1.DecisionAnnotation] = infrav1.DecisionRetry.About(state.Last.ID)
	})
	s.settled(2)
}

// first sets the fault of a creation.
func (p *situation) first() {
	if p.fresh {
		p.strike(*p.fault)
	}
}

func (p *situation) enter() {
	if !p.fresh {
		p.settled(2)
		if p.fault != nil {
			p.strike(*p.fault)
		}
	}
	if p.begin != nil {
		p.begin(p.subject)
	}
	switch {
	case p.name == "held":
		p.Eventually(p.says(infrav1.ProvisionedCondition)).Should(HavePrefix("False " + infrav1.OutcomeUnknownReason))
	case p.fault != nil:
		p.Eventually(p.job).ShouldNot(BeEmpty(), "the job of the request in flight")
	}
	if p.live > 0 { // core may take a moment to create and delete Machines
		p.Eventually(p.present).Should(HaveLen(p.live))
	}
	p.before = len(p.requestLog(p.Context()))
	p.machines = p.present()
}

// present returns the UIDs of the Machines that are not being deleted.
func (p *situation) present() (all []string) {
	list := &clusterv1.MachineList{}
	p.Expect(p.at.List(p.Context(), list, p.mine()...)).To(Succeed())
	for _, m := range list.Items {
		if m.DeletionTimestamp.IsZero() {
			all = append(all, m.Name+" "+string(m.UID))
		}
	}
	slices.Sort(all)
	return all
}

func (p *situation) unchanged() {
	p.Expect(p.mutations(p.before)).To(BeEmpty(), "requests since the upgrade that change something")
	p.Expect(p.present()).To(Equal(p.machines), "Machines")
	p.Logf("requests since the upgrade: %v", p.requests(p.before))
}

func (p *situation) leave() {
	if p.fault != nil && p.fault.Job != "" {
		p.Expect(env.portal.removeFault(p.Context(), p.namespace)).To(Succeed())
	}
	p.ended(p.subject)
	p.Expect(p.mutations(0)).To(HaveLen(p.asked), "requests of the whole life that change something")
	if p.name != "deleting" {
		p.remove()
	}
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
