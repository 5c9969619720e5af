// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

const (
	identityName = "portal-identity"
	// patience is how long a step may take. It is many times what two idle cores need.
	patience = 5 * time.Minute
	// The Kubernetes versions that Clusters are created with and upgraded to.
	olderVersion, newerVersion = "v1.34.9", "v1.35.6"
)

// fieldOwner owns the fields that specs apply, like the field manager of kubectl apply --server-side.
const fieldOwner = client.FieldOwner("e2e")

// subject is a Cluster that a spec tests, in the spec's own namespace and under its own portal account.
type subject struct {
	*testing.T
	*WithT
	at        *management // management cluster of the Cluster
	namespace string
	name      string
	user      int
}

var usedAccounts atomic.Int32

// prepareSubject creates the namespace with the identity Secret.
func prepareSubject(t *testing.T) *subject {
	t.Helper()
	i := int(usedAccounts.Add(1)) - 1
	if i >= accounts {
		t.Fatal("more namespaces than portal accounts: raise the constant")
	}
	s := &subject{T: t, WithT: NewWithT(t), at: env.home, namespace: fmt.Sprintf("e2e-%d", i), name: "sample", user: i}
	s.SetDefaultEventuallyTimeout(patience)
	s.SetDefaultEventuallyPollingInterval(300 * time.Millisecond)
	s.Expect(s.at.Create(s.Context(), newNamespace(s.namespace))).To(Succeed())
	s.Expect(s.at.Create(s.Context(), env.portal.identity(client.ObjectKey{Namespace: s.namespace, Name: identityName}, i))).To(Succeed())
	t.Cleanup(s.explain)
	return s
}

func (s *subject) key() client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: s.name}
}

func (s *subject) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}
}

// generate returns the output of clusterctl generate cluster for a flavor. The default flavor is "".
func (s *subject) generate(flavor string, workers int) string {
	s.Helper()
	arguments := []string{
		"generate", "cluster", s.name, "--target-namespace", s.namespace, "--infrastructure", env.clusterctl.provider,
		"--kubernetes-version", olderVersion, "--control-plane-machine-count", "1", "--worker-machine-count", fmt.Sprint(workers),
	}
	if flavor != "" {
		arguments = append(arguments, "--flavor", flavor)
	}
	manifest, err := env.clusterctl.run(s.Context(), s.at, []string{
		"PORTAL_ZONE_ID=zone-1", "PORTAL_VPC=default", "PORTAL_SERVICE_OFFERING_ID=offering-4-16", "PORTAL_SSH_KEY_PAIR=ops",
	}, arguments...)
	s.Expect(err).NotTo(HaveOccurred())
	return manifest
}

// apply applies a manifest as kubectl apply would.
func (s *subject) apply(manifest string) {
	s.Helper()
	objects, err := yaml.ToUnstructured([]byte(manifest))
	s.Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		s.Expect(s.at.Apply(s.Context(), client.ApplyConfigurationFromUnstructured(&object), fieldOwner)).
			To(Succeed(), "%s %s", object.GetKind(), object.GetName())
	}
}

// deleteManifest deletes the objects of a manifest as kubectl delete --ignore-not-found --wait=false would.
func (s *subject) deleteManifest(manifest string) {
	s.Helper()
	objects, err := yaml.ToUnstructured([]byte(manifest))
	s.Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		s.Expect(client.IgnoreNotFound(s.at.Delete(s.Context(), &object))).To(Succeed())
	}
}

// create creates the Cluster and waits for it.
func (s *subject) create(workers int) {
	s.Helper()
	s.apply(s.generate("", workers))
	s.settled(workers)
}

// change patches the object. An object without a name gets the Cluster's.
func change[T client.Object](s *subject, object T, change func(T)) {
	s.Helper()
	if object.GetName() == "" {
		object.SetName(s.name)
	}
	object.SetNamespace(s.namespace)
	s.Expect(s.at.Get(s.Context(), client.ObjectKeyFromObject(object), object)).To(Succeed())
	before, _ := object.DeepCopyObject().(client.Object)
	change(object)
	s.Expect(s.at.Patch(s.Context(), object, client.MergeFrom(before))).To(Succeed())
}

// deployment returns the Cluster's only MachineDeployment.
func (s *subject) deployment() *clusterv1.MachineDeployment {
	s.Helper()
	list := &clusterv1.MachineDeploymentList{}
	s.Expect(s.at.List(s.Context(), list, s.mine()...)).To(Succeed())
	s.Expect(list.Items).To(HaveLen(1), "MachineDeployments of %s", s.key())
	return &list.Items[0]
}

func (s *subject) scaleTo(replicas int32) {
	s.Helper()
	change(s, s.deployment(), func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = &replicas })
}

// mine selects the objects that belong to the Cluster.
func (s *subject) mine() []client.ListOption {
	return []client.ListOption{client.InNamespace(s.namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.name}}
}

// settled waits until the Cluster is Available with that many workers. Each portal worker must be the Node of one Ready Machine, and no
// operation may be in progress.
func (s *subject) settled(workers int) {
	s.Helper()
	s.Eventually(func() (string, error) { return s.missing(s.Context(), workers) }).Should(BeEmpty(),
		"what Cluster %s lacks to be settled with %d workers", s.key(), workers)
}

// missing describes what is missing until the subject is settled, with the conditions that explain it.
func (s *subject) missing(ctx context.Context, workers int) (string, error) {
	machines := &clusterv1.MachineList{}
	if err := s.at.List(ctx, machines, s.mine()...); err != nil {
		return "", err
	}
	var held []string
	for _, machine := range machines.Items {
		if machine.DeletionTimestamp.IsZero() && conditions.IsTrue(&machine, clusterv1.MachineReadyCondition) {
			held = append(held, machine.Status.NodeRef.Name)
		}
	}
	slices.Sort(held)
	run, err := s.portalWorkers(ctx)
	if err != nil {
		return "", err
	}
	cluster, controlPlane := s.condition(ctx, &clusterv1.Cluster{}, clusterv1.ClusterAvailableCondition),
		s.condition(ctx, &infrav1.PortalControlPlane{}, infrav1.WorkersReadyCondition)
	if len(machines.Items) == workers && len(run) == workers && slices.Equal(held, run) &&
		strings.HasPrefix(cluster, "True") && strings.HasPrefix(controlPlane, "True") {
		return "", nil
	}
	return fmt.Sprintf("%d Machines, Ready are those of Nodes %v; the portal runs workers %v\n  Cluster Available: %s\n  PortalControlPlane Available: %s\n  PortalControlPlane WorkersReady: %s",
		len(machines.Items), held, run, cluster, s.condition(ctx, &infrav1.PortalControlPlane{}, infrav1.AvailableCondition), controlPlane), nil
}

// conditioned is an object with conditions.
type conditioned interface {
	client.Object
	conditions.Getter
}

// condition returns a condition of the object that has the Cluster's name, as "Status Reason: message".
func (s *subject) condition(ctx context.Context, object conditioned, name string) string {
	if err := s.at.Get(ctx, s.key(), object); err != nil {
		return err.Error()
	}
	condition := meta.FindStatusCondition(object.GetConditions(), name)
	if condition == nil {
		return "not set"
	}
	return fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, strings.Join(strings.Fields(condition.Message), " "))
}

// says returns a function that reads a condition of the PortalControlPlane.
func (s *subject) says(name string) func() string {
	return func() string { return s.condition(s.Context(), &infrav1.PortalControlPlane{}, name) }
}

// account returns the subject's portal account.
func (s *subject) account() string { return account(s.user) }

// portalClusters returns the account's clusters with the Cluster's name, to which the provider adds a suffix.
func (s *subject) portalClusters(ctx context.Context) ([]emulator.Cluster, error) {
	all, err := env.portal.clusters(ctx)
	return slices.DeleteFunc(all, func(c emulator.Cluster) bool {
		return c.Account != s.account() || !strings.HasPrefix(c.Name, s.name+"-")
	}), err
}

// portalCluster returns the Cluster's only portal cluster.
func (s *subject) portalCluster() emulator.Cluster {
	s.Helper()
	clusters, err := s.portalClusters(s.Context())
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(clusters).To(HaveLen(1), "clusters at the portal for %s", s.key())
	return clusters[0]
}

// portalWorkers returns the sorted names of the workers that the portal runs, or none while an operation runs at the portal.
func (s *subject) portalWorkers(ctx context.Context) (names []string, err error) {
	clusters, err := s.portalClusters(ctx)
	if err != nil || len(clusters) != 1 || clusters[0].State != emulator.ClusterRunning {
		return nil, err
	}
	for _, node := range clusters[0].Nodes {
		if !node.ControlPlane && !node.Gone {
			names = append(names, node.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
