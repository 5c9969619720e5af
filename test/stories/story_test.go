// SPDX-License-Identifier: Apache-2.0

package stories

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

const (
	name     = "story"
	identity = "portal-identity"

	// patience is longer than core may take to reconcile a Machine, even on a busy host. Core connects to a new workload cluster
	// after up to 30 s, and until then retries to read its Nodes ever more slowly.
	patience = 5 * time.Minute
)

// story is one Cluster in a namespace and an account of its own.
type story struct {
	*testing.T
	*WithT
	box       *sandbox.Sandbox
	namespace string
	account   string

	secret        *corev1.Secret
	cluster       *clusterv1.Cluster
	portalCluster *infrav1.PortalCluster
	controlPlane  *infrav1.PortalControlPlane
	deployment    *clusterv1.MachineDeployment
	template      *infrav1.PortalMachineTemplate

	access struct { // to the portal cluster
		kubeconfig string
		client     client.Client
	}
}

// tell prepares a story with two workers in the sandbox that most stories share. Nothing is applied yet.
func tell(t *testing.T) *story {
	t.Helper()
	return tellIn(t, box)
}

// tellAlone prepares a story that may end the manager: no other story uses its sandbox at the same time.
func tellAlone(t *testing.T) *story {
	t.Helper()
	t.Parallel()
	alone.Lock()
	t.Cleanup(alone.Unlock)
	if second == nil {
		var err error
		if second, err = start(""); err != nil {
			t.Fatal(err)
		}
	}
	return tellIn(t, second)
}

func tellIn(t *testing.T, box *sandbox.Sandbox) *story {
	t.Helper()
	i := int(used.Add(1)) - 1
	if i >= accounts {
		t.Fatal("more stories than accounts: raise the constant")
	}
	s := &story{T: t, WithT: NewWithT(t), box: box, namespace: fmt.Sprintf("story-%d", i), account: account(i)}
	s.SetDefaultEventuallyTimeout(patience)
	s.SetDefaultEventuallyPollingInterval(200 * time.Millisecond)
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}})
	s.secret = s.box.IdentitySecret(client.ObjectKey{Namespace: s.namespace, Name: identity})
	s.secret.StringData[infrav1.IdentityEmail] = email(i)
	s.secret.StringData[infrav1.IdentityPassword] = password(i)
	s.compose()
	t.Cleanup(s.explain)
	return s
}

func (s *story) compose() {
	meta := metav1.ObjectMeta{Namespace: s.namespace, Name: name}
	ref := func(kind string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: kind, Name: name}
	}
	s.cluster = &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: ref("PortalCluster"), ControlPlaneRef: ref("PortalControlPlane"),
	}}
	s.portalCluster = &infrav1.PortalCluster{ObjectMeta: meta, Spec: infrav1.PortalClusterSpec{
		IdentityRef: infrav1.PortalIdentityReference{Name: identity}, ZoneID: "zone-1", VPC: infrav1.PortalVPC{Name: "default"},
	}}
	s.controlPlane = &infrav1.PortalControlPlane{ObjectMeta: meta, Spec: infrav1.PortalControlPlaneSpec{
		Version: "v1.35.6", Replicas: ptr.To[int32](1),
	}}
	s.template = newTemplate(meta, "small")
	s.deployment = newDeployment(meta, 2)
}

func newTemplate(meta metav1.ObjectMeta, offering string) *infrav1.PortalMachineTemplate {
	template := &infrav1.PortalMachineTemplate{ObjectMeta: meta}
	template.Spec.Template.Spec = infrav1.WorkerParameters{ServiceOfferingID: offering, SSHKeyPair: "ops"}
	return template
}

// newDeployment returns a MachineDeployment that uses the PortalMachineTemplate of the same name.
func newDeployment(meta metav1.ObjectMeta, replicas int32) *clusterv1.MachineDeployment {
	return &clusterv1.MachineDeployment{ObjectMeta: meta, Spec: clusterv1.MachineDeploymentSpec{
		ClusterName: name,
		Replicas:    &replicas,
		Deletion:    clusterv1.MachineDeploymentDeletionSpec{Order: clusterv1.NewestMachineSetDeletionOrder},
		Template: clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{
			ClusterName: name, Version: "v1.35.6",
			Bootstrap: clusterv1.Bootstrap{DataSecretName: ptr.To("")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: infrav1.GroupVersion.Group, Kind: "PortalMachineTemplate", Name: meta.Name,
			},
		}},
	}}
}

// objects returns the objects of the story in the order of a manifest, the Secret first.
func (s *story) objects() []client.Object {
	return []client.Object{s.secret, s.cluster, s.portalCluster, s.controlPlane, s.deployment, s.template}
}

// apply creates all objects of the story.
func (s *story) apply() {
	s.Helper()
	for _, o := range s.objects() {
		s.create(o)
	}
}

func (s *story) create(o client.Object) {
	s.Helper()
	s.Expect(s.box.Client.Create(s.Context(), o)).To(Succeed())
}

// change patches an object until the API server accepts the patch.
func change[T client.Object](s *story, o T, change func(T)) {
	s.Helper()
	s.Eventually(func() error {
		if err := s.box.Client.Get(s.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before, _ := o.DeepCopyObject().(client.Object)
		change(o)
		return s.box.Client.Patch(s.Context(), o, client.MergeFrom(before))
	}).Should(Succeed())
}

func (s *story) scale(replicas int32) {
	s.Helper()
	change(s, s.deployment, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = &replicas })
}

// condition returns a function that reads a condition as "Status Reason: message".
func condition(s *story, o client.Object, conditionType string) func() string {
	return func() string {
		if err := s.box.Client.Get(s.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err.Error()
		}
		getter, _ := o.(conditions.Getter)
		c := conditions.Get(getter, conditionType)
		if c == nil {
			return "none"
		}
		return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
}

// settled waits until core has acted on the replicas and the Cluster is available. The Cluster then has the given number of workers, and
// each worker Node has a Machine that is Ready.
func (s *story) settled(workers int) {
	s.Helper()
	s.Eventually(s.behind).Should(BeEmpty(), "MachineDeployments that core has not observed yet")
	s.Eventually(condition(s, s.cluster, clusterv1.ClusterAvailableCondition)).Should(HavePrefix("True"))
	s.Eventually(func() (got [3]int) {
		machines, nodes := s.machines(), s.nodes()
		ready := 0
		for _, m := range machines {
			if conditions.IsTrue(&m, clusterv1.MachineReadyCondition) && slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Name == m.Status.NodeRef.Name }) {
				ready++
			}
		}
		return [3]int{len(machines), len(nodes), ready}
	}).Should(Equal([3]int{workers, workers, workers}), "Machines, worker Nodes, Machines that are Ready on one")
	s.Eventually(condition(s, s.controlPlane, infrav1.WorkersReadyCondition)).Should(HavePrefix("True"))
}

// behind returns the MachineDeployments whose latest spec core has not observed. Their number of Machines may still be that of earlier
// replicas.
func (s *story) behind() (names []string) {
	s.Helper()
	list := &clusterv1.MachineDeploymentList{}
	s.Expect(s.box.Client.List(s.Context(), list, client.InNamespace(s.namespace))).To(Succeed())
	for _, d := range list.Items {
		if d.Status.ObservedGeneration != d.Generation {
			names = append(names, d.Name)
		}
	}
	return names
}

func (s *story) machines() []clusterv1.Machine {
	s.Helper()
	list := &clusterv1.MachineList{}
	s.Expect(s.box.Client.List(s.Context(), list, client.InNamespace(s.namespace))).To(Succeed())
	return list.Items
}

// workload returns a client of the portal cluster, with the kubeconfig that the provider stored. It makes a new client only if the
// kubeconfig has changed: a new client connects and reads all kinds, and stories call workload several times a second.
func (s *story) workload() client.Client {
	s.Helper()
	kubeconfig := &corev1.Secret{}
	s.Expect(s.box.Client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name + "-kubeconfig"}, kubeconfig)).To(Succeed())
	if stored := string(kubeconfig.Data["value"]); s.access.client == nil || s.access.kubeconfig != stored {
		config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig.Data["value"])
		s.Expect(err).NotTo(HaveOccurred())
		s.access.client, err = client.New(config, client.Options{})
		s.Expect(err).NotTo(HaveOccurred())
		s.access.kubeconfig = stored
	}
	return s.access.client
}

// allNodes returns the Nodes of the portal cluster, including the control nodes.
func (s *story) allNodes() []corev1.Node {
	s.Helper()
	list := &corev1.NodeList{}
	s.Expect(s.workload().List(s.Context(), list)).To(Succeed())
	return list.Items
}

// nodes returns the worker Nodes.
func (s *story) nodes() []corev1.Node {
	s.Helper()
	return slices.DeleteFunc(s.allNodes(), func(n corev1.Node) bool {
		_, control := n.Labels["node-role.kubernetes.io/control-plane"]
		return control
	})
}

// requestLog returns the entries of the story's account in the portal's request log.
func (s *story) requestLog() []emulator.LogEntry {
	return slices.DeleteFunc(s.box.Portal.RequestLog(), func(e emulator.LogEntry) bool { return e.Account != s.account })
}

// changes returns the requests of the account that change something at the portal, in order and without ids.
func (s *story) changes() []string {
	var all []string
	for _, e := range s.requestLog() {
		if e.IsRequest() && (e.Method == "POST" || e.Method == "DELETE") && e.Route != "/login" {
			parts := strings.Split(e.Route, "/")
			all = append(all, fmt.Sprintf("%s %s %d", e.Method, parts[len(parts)-1], e.Status))
		}
	}
	return all
}

// requests counts all requests of the account.
func (s *story) requests() int {
	n := 0
	for _, e := range s.requestLog() {
		if e.IsRequest() {
			n++
		}
	}
	return n
}

// portalClusters returns the portal clusters of the account.
func (s *story) portalClusters() []emulator.Cluster {
	return slices.DeleteFunc(s.box.Portal.Clusters(), func(c emulator.Cluster) bool { return c.Account != s.account })
}

// gone waits until no Cluster API object of the story exists, and checks that the account has no portal cluster.
func (s *story) gone() {
	s.Helper()
	lists := []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{},
		&infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &infrav1.PortalMachineList{},
		&clusterv1.MachinePoolList{}, &infrav1.PortalMachinePoolList{},
	}
	s.Eventually(func() (left []string) {
		for _, list := range lists {
			s.Expect(s.box.Client.List(s.Context(), list, client.InNamespace(s.namespace))).To(Succeed())
			raw, _ := json.Marshal(list)
			var items struct {
				Items []metav1.PartialObjectMetadata
			}
			_ = json.Unmarshal(raw, &items)
			for _, item := range items.Items {
				left = append(left, fmt.Sprintf("%T %s", list, item.Name))
			}
		}
		return left
	}).Should(BeEmpty())
	s.Expect(s.portalClusters()).To(BeEmpty())
}

// deleteAll deletes everything at once, as kubectl delete -f does.
func (s *story) deleteAll() {
	s.Helper()
	for _, o := range s.objects() {
		s.Expect(client.IgnoreNotFound(s.box.Client.Delete(s.Context(), o))).To(Succeed())
	}
}

func (s *story) secretIsGone() {
	s.Helper()
	s.Eventually(func() bool {
		return apierrors.IsNotFound(s.box.Client.Get(s.Context(), client.ObjectKeyFromObject(s.secret), s.secret))
	}).Should(BeTrue(), "the provider releases the identity Secret")
}

// explain prints the objects and the portal's request log of a failed story.
func (s *story) explain() {
	if s.Failed() {
		s.Log(s.box.Describe(context.WithoutCancel(s.T.Context()), s.namespace, s.account))
	}
}
