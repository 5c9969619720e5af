// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/cmd/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/gitops/health"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	name  = "my-cluster" // the name in docs/gitops.md
	older = "v1.35.6"
	newer = "v1.36.3"
)

// fixture is one Cluster under GitOps, in a namespace and an account of its own.
type fixture struct {
	*suite.Fixture
	manifests []*unstructured.Unstructured
	cluster   *unstructured.Unstructured // one of them
	pages     health.Pages
}

// TestLife commits a Cluster with one worker, another worker, a newer version, and nothing.
func TestLife(t *testing.T) {
	f := &fixture{Fixture: suite.NewFixture(t, box, suite.User("gitops", accounts.Next(t)))}
	f.ClusterName = name
	var err error
	f.pages, err = health.ReadPages(box.File())
	f.Expect(err).NotTo(HaveOccurred())
	f.Create(f.IdentitySecret(box.Identity.Name))
	for _, template := range []string{"clusterclass-portal.yaml", "cluster-template-topology.yaml"} {
		objects, err := box.GenerateCluster(f.Context(), client.ObjectKey{Namespace: f.Namespace, Name: name}, "--from", box.File("templates", template),
			"--kubernetes-version", older, "--control-plane-machine-count", "1", "--worker-machine-count", "1")
		f.Expect(err).NotTo(HaveOccurred())
		f.manifests = append(f.manifests, objects...)
		f.cluster = objects[0]
	}
	f.arrives(older, 1)
	f.waits()
	f.described()
	nodes := f.Nodes()

	workers, _, err := unstructured.NestedSlice(f.cluster.Object, "spec", "topology", "workers", "machineDeployments")
	f.Expect(err).NotTo(HaveOccurred())
	workers[0].(map[string]any)["replicas"] = int64(2) // the API has a list of objects here
	f.Expect(unstructured.SetNestedSlice(f.cluster.Object, workers, "spec", "topology", "workers", "machineDeployments")).To(Succeed())
	f.arrives(older, 2)
	f.Expect(unstructured.SetNestedField(f.cluster.Object, newer, "spec", "topology", "version")).To(Succeed())
	f.arrives(newer, 2)
	f.Expect(f.Nodes()).To(ContainElement(HaveField("UID", nodes[0].UID)), "the portal upgrades nodes in place")
	f.prune()
	f.Expect(f.Changes()).To(Equal([]string{"POST kubernetes-clusters 202", "POST scale 202", "POST upgrade 202", "DELETE {cluster_id} 202"}))
}

// apply applies all manifests as Flux does: as a dry run without force, which finds conflicts, and then with force.
func (f *fixture) apply() error {
	for _, o := range f.manifests {
		for _, option := range []client.ApplyOption{client.DryRunAll, client.ForceOwnership} {
			err := box.Client.Apply(f.Context(), client.ApplyConfigurationFromUnstructured(o.DeepCopy()), option, client.FieldOwner("kustomize-controller"))
			if apierrors.IsConflict(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
				return StopTrying("the API server refuses " + o.GetKind()).Wrap(err)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// arrives applies the manifests until every health check reports that the last commit has arrived, and checks that it is in effect then. No health
// check fails in the meantime.
func (f *fixture) arrives(version string, workers int) {
	f.Helper()
	f.Eventually(func() ([]health.State, error) {
		err := f.apply()
		var states []health.State
		for _, kind := range []string{"cluster.x-k8s.io/v1beta2/Cluster", "cluster.x-k8s.io/v1beta2/MachineDeployment", infrav1.GroupVersion.String() + "/PortalControlPlane"} {
			i := strings.LastIndex(kind, "/")
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion(kind[:i])
			list.SetKind(kind[i+1:])
			f.List(list)
			for _, o := range list.Items {
				states = append(states, health.Check(&o, f.pages.Reasons()))
			}
		}
		f.Expect(states).NotTo(ContainElement(health.Failed))
		return states, err
	}).Should(Equal([]health.State{health.Current, health.Current, health.Current}))
	machines := f.Machines()
	f.Expect(machines).To(HaveLen(workers))
	for _, m := range machines {
		f.Expect(m.Spec.Version).To(Equal(version))
		f.Expect(conditions.IsTrue(&m, clusterv1.MachineReadyCondition)).To(BeTrue(), "Machine %s is Ready", m.Name)
	}
}

// prune deletes all objects again and again, and waits until they and the portal cluster are gone. The ClusterClass cannot be deleted before the
// Cluster is gone.
func (f *fixture) prune() {
	f.Helper()
	f.Eventually(func() (left []string) {
		for _, o := range f.manifests {
			if err := box.Client.Delete(f.Context(), o.DeepCopy()); !apierrors.IsNotFound(err) {
				left = append(left, o.GetKind())
			}
		}
		return left
	}).Should(BeEmpty())
	f.Eventually(func() []string {
		return f.Left(&clusterv1.MachineDeploymentList{}, &clusterv1.MachineList{}, &infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{},
			&infrav1.PortalMachineList{}, &infrav1.PortalMachineTemplateList{}, &infrav1.PortalBootstrapConfigTemplateList{})
	}).Should(BeEmpty())
	f.Expect(f.PortalClusters()).To(BeEmpty())
}

// waits runs the kubectl wait commands of docs/gitops.md, with kubectl's own package.
func (f *fixture) waits() {
	f.Helper()
	deployments := &clusterv1.MachineDeploymentList{}
	f.List(deployments)
	all, err := f.pages.Waits()
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(all).NotTo(BeEmpty(), "kubectl wait commands of the page")
	for _, arguments := range all {
		for i, argument := range arguments { // the topology controller appends a suffix to the name
			arguments[i] = strings.Replace(argument, name+"-workers", deployments.Items[0].Name, 1)
		}
		config := genericclioptions.NewConfigFlags(false)
		config.KubeConfig, config.Namespace = ptr.To(box.Kubeconfig), ptr.To(f.Namespace)
		var output bytes.Buffer
		flags, command := wait.NewWaitFlags(config, genericiooptions.IOStreams{In: &output, Out: &output, ErrOut: &output}), &cobra.Command{}
		flags.AddFlags(command)
		f.Expect(command.ParseFlags(arguments)).To(Succeed())
		options, err := flags.ToOptions(command.Flags().Args())
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(options.RunWaitContext(f.Context())).To(Succeed(), "kubectl wait %q", arguments)
	}
}

// described checks that clusterctl describe shows all objects of the Cluster.
func (f *fixture) described() {
	f.Helper()
	command := exec.CommandContext(f.Context(), box.Binary("clusterctl"), "describe", "cluster", name, "-n", f.Namespace, "--grouping=false", "--show-templates", "--echo")
	command.Env = append(os.Environ(), box.Environment()...)
	tree, err := command.CombinedOutput()
	f.Expect(err).NotTo(HaveOccurred(), string(tree))
	for line, state := range map[string]string{
		"Cluster %s/my-cluster, v1\\.35\\.6 ":                        "Available",
		"PortalCluster %s/my-cluster ":                               "Ready",
		"PortalControlPlane %s/my-cluster, v1\\.35\\.6 +1/1 ":        "Ready",
		"MachineDeployment %s/my-cluster-workers-\\w+, v1\\.35\\.6 ": "Available",
		"PortalMachineTemplate %s/my-cluster-workers-\\w+":           "",
		"PortalBootstrapConfigTemplate %s/my-cluster-workers-\\w+":   "",
		"PortalBootstrapConfig %s/\\S+ ":                             "Ready",
		"PortalMachine %s/\\S+ ":                                     "Ready",
	} {
		f.Expect(string(tree)).To(MatchRegexp(fmt.Sprintf(line, f.Namespace) + ".*" + state))
	}
}
