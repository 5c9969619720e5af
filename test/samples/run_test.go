// SPDX-License-Identifier: Apache-2.0

package samples

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/controllers/operation"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

// quiet is how long the manager must not ask the portal for a change after the cluster is available.
const quiet = 15 * time.Second

// revival is a cluster that is restored from the samples of a release, at a portal that has a similar cluster.
type revival struct {
	*suite.Fixture
	kubeconfig []byte            // of the portal's cluster
	workers    []corev1.Node     // of the portal's cluster
	uids       map[string]string // new UIDs by the UIDs in the samples
}

// account is the name of the portal account and of the phase whose samples run.
const account = "ready"

// user is the user of the account.
var user = emulator.User{
	ID: account, Email: "ready@portal.example", Password: "password of ready", Account: account, Role: emulator.RoleAdministrator,
}

// TestRun checks that today's manager takes over a cluster of each release without changing it. TestRead, and TestSamplesAreKept of package
// contract, check every object in every phase. Real servers add that the manager acts on what it reads as the release did.
func TestRun(t *testing.T) {
	suite.Nightly(t)
	options := sandbox.Options{Dir: os.Getenv("SAMPLES_DIR"), WithoutManager: true}
	options.Portal.Users = []emulator.User{user}
	options.Portal.Durations = emulator.Durations{Pending: 100 * time.Millisecond, Create: time.Second, Scale: time.Second, Upgrade: time.Second, Delete: time.Second}
	box := suite.StartFor(t, options)
	for i, release := range releases(t) {
		r := &revival{uids: map[string]string{}, Fixture: &suite.Fixture{
			T: t, WithT: suite.Patient(t), Box: box, Namespace: fmt.Sprintf("revived-%d", i), User: user,
		}}
		t.Cleanup(r.Explain)
		text, err := os.ReadFile(filepath.Join("testdata", release, account+".yaml"))
		r.Expect(err).NotTo(HaveOccurred())
		r.restore(r.makePortalCluster(string(text)))
		before, spec, begin := r.machines(), r.controlPlane().Spec, len(box.Portal.RequestLog())
		r.Expect(box.Portal.Inject(emulator.Fault{ID: "away", Method: "GET", Path: "/kubernetes-clusters/*/config", Status: 503})).To(Succeed())

		r.Expect(box.StartManager(t.Context())).To(Succeed())
		r.unpause()
		if r.withoutDigest() {
			r.Eventually(r.Condition(r.controlPlane(), infrav1.KubeconfigReadyCondition)).Should(ContainSubstring(" " + infrav1.KubeconfigInvalidReason + ": "))
			r.Consistently(r.machines, quiet, time.Second).Should(Equal(before), "Machines while the portal cannot be asked for the kubeconfig")
		}
		box.Portal.RemoveFault("away")
		r.Eventually(r.Condition(r.cluster(), clusterv1.ClusterAvailableCondition)).Should(Equal(suite.Available))
		r.Eventually(r.ReadyMachines).Should(Equal(len(r.workers)))
		r.Consistently(func() []string { return r.changes(begin) }, quiet, time.Second).Should(BeEmpty(), "requests that change something")
		r.Expect(r.machines()).To(Equal(before), "Machines")
		r.Expect(r.controlPlane().Spec).To(Equal(spec), "spec of the PortalControlPlane")
		state, err := operation.Load(r.controlPlane())
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(state.Record.TakenOver).To(BeFalse(), "the cluster counts as created by this object")
		box.StopManager()
	}
}

// makePortalCluster creates a portal cluster like that of the samples, and makes the samples name it and its nodes.
func (r *revival) makePortalCluster(text string) string {
	r.Helper()
	all := parse(r.T, []byte(text))
	controlPlane, record := &infrav1.PortalControlPlane{}, map[string]any{}
	var old []*unstructured.Unstructured
	for _, o := range all {
		switch o.GetKind() {
		case "PortalControlPlane":
			r.Expect(json.Unmarshal(mustMarshal(r.T, o.Object), controlPlane)).To(Succeed())
			r.Expect(json.Unmarshal([]byte(o.GetAnnotations()[infrav1.RecordAnnotation]), &record)).To(Succeed())
		case "Node":
			if suite.IsWorker(o) {
				old = append(old, o)
			}
		}
	}
	portal, err := cloud.New(cloud.Config{
		BaseURL: r.Box.Portal.URL(), CABundle: r.Box.Portal.CAPEM(), Wait: true, Email: user.Email, Password: user.Password,
	})
	r.Expect(err).NotTo(HaveOccurred())
	vpcs, err := portal.VPCs(r.Context(), "default")
	r.Expect(err).NotTo(HaveOccurred())
	version := slices.IndexFunc(r.Box.Portal.Versions(), func(v emulator.Version) bool {
		return strings.TrimPrefix(v.SemanticVersion, "v") == strings.TrimPrefix(controlPlane.Spec.Version, "v")
	})
	_, err = portal.CreateCluster(r.Context(), cloud.CreateClusterRequest{
		Name: controlPlane.Spec.ClusterName, Description: "like that of the samples", ZoneID: "zone-1", KubernetesVersionID: r.Box.Portal.Versions()[version].ID,
		ServiceOfferingID: "small", Size: len(old), ControlNodes: 1, VPCID: vpcs[0].ID, SSHKeyPair: "ops",
	})
	r.Expect(err).NotTo(HaveOccurred())
	var made emulator.Cluster
	r.Eventually(func() bool {
		made = r.Box.Portal.Clusters()[len(r.Box.Portal.Clusters())-1]
		return made.State == emulator.ClusterRunning
	}).Should(BeTrue())
	r.kubeconfig, err = portal.Kubeconfig(r.Context(), made.ID)
	r.Expect(err).NotTo(HaveOccurred())
	r.workers = r.nodes()
	r.Expect(r.workers).To(HaveLen(len(old)))
	names := []string{
		controlPlane.Spec.ClusterID, made.ID, fmt.Sprint(record["vpcID"]), vpcs[0].ID, fmt.Sprint(record["networkID"]), made.NetworkID,
		controlPlane.Namespace, r.Namespace,
	}
	for i, n := range old {
		names = append(names, n.GetName(), r.workers[i].Name, string(n.GetUID()), string(r.workers[i].UID))
	}
	renamed := strings.NewReplacer(names...)
	for i, n := range old { // the release had set the providerID, by which core finds a Node
		providerID, _, _ := unstructured.NestedString(n.Object, "spec", "providerID")
		patch := fmt.Sprintf(`{"spec":{"providerID":%q}}`, renamed.Replace(providerID))
		r.Expect(r.workload().Patch(r.Context(), &r.workers[i], client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	}
	return renamed.Replace(text)
}

// workload returns a client of the portal's cluster.
func (r *revival) workload() client.Client {
	config, err := clientcmd.RESTConfigFromKubeConfig(r.kubeconfig)
	r.Expect(err).NotTo(HaveOccurred())
	workload, err := client.New(config, client.Options{})
	r.Expect(err).NotTo(HaveOccurred())
	return workload
}

// nodes returns the workers of the portal's cluster.
func (r *revival) nodes() []corev1.Node {
	list := &corev1.NodeList{}
	r.Expect(r.workload().List(r.Context(), list)).To(Succeed())
	return slices.DeleteFunc(list.Items, func(n corev1.Node) bool { return !suite.IsWorker(&n) })
}

// restore creates the objects, with their status, in a paused Cluster.
func (r *revival) restore(text string) {
	r.Helper()
	r.Expect(r.Box.Client.Create(r.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.Namespace}})).To(Succeed())
	secret := r.IdentitySecret("portal-identity")
	r.Create(secret)
	all := parse(r.T, []byte(text))
	slices.SortStableFunc(all, func(a, b *unstructured.Unstructured) int { return last(a) - last(b) })
	for _, o := range all {
		if o.GetKind() != "Node" && o.GetName() != secret.Name {
			r.create(o)
		}
	}
}

// last sorts Secrets after the objects that own them.
func last(o *unstructured.Unstructured) int {
	if o.GetKind() == "Secret" {
		return 1
	}
	return 0
}

// create creates one object. UIDs of the samples' objects are replaced by those of the new objects.
func (r *revival) create(o *unstructured.Unstructured) {
	r.Helper()
	own := string(o.GetUID())
	text := string(mustMarshal(r.T, o.Object))
	for was, is := range r.uids {
		text = strings.ReplaceAll(text, was, is)
	}
	restored := &unstructured.Unstructured{}
	r.Expect(json.Unmarshal([]byte(text), &restored.Object)).To(Succeed())
	for _, field := range []string{"uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(restored.Object, "metadata", field)
	}
	r.adapt(restored)
	status, hasStatus := restored.Object["status"]
	r.Expect(r.Box.Client.Create(r.Context(), restored)).To(Succeed(), "%s %s", o.GetKind(), o.GetName())
	r.uids[own] = string(restored.GetUID())
	if annotations := string(mustMarshal(r.T, restored.GetAnnotations())); strings.Contains(annotations, own) {
		patch := `{"metadata":{"annotations":` + strings.ReplaceAll(annotations, own, string(restored.GetUID())) + `}}`
		r.Expect(r.Box.Client.Patch(r.Context(), restored, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	}
	if hasStatus { // patched, because core may write it too
		patch := mustMarshal(r.T, map[string]any{"status": status})
		r.Expect(r.Box.Client.Status().Patch(r.Context(), restored, client.RawPatch(types.MergePatchType, patch))).To(Succeed(), "status of %s %s", o.GetKind(), o.GetName())
	}
}

// adapt pauses the Cluster, and sets endpoints and the kubeconfig to those of the portal's cluster.
func (r *revival) adapt(o *unstructured.Unstructured) {
	config, err := clientcmd.RESTConfigFromKubeConfig(r.kubeconfig)
	r.Expect(err).NotTo(HaveOccurred())
	server, err := url.Parse(config.Host)
	r.Expect(err).NotTo(HaveOccurred())
	port, err := strconv.ParseInt(server.Port(), 10, 64)
	r.Expect(err).NotTo(HaveOccurred())
	if _, has, _ := unstructured.NestedMap(o.Object, "spec", "controlPlaneEndpoint"); has {
		r.Expect(unstructured.SetNestedMap(o.Object, map[string]any{"host": server.Hostname(), "port": port}, "spec", "controlPlaneEndpoint")).To(Succeed())
	}
	switch {
	case o.GetKind() == "Cluster":
		r.Expect(unstructured.SetNestedField(o.Object, true, "spec", "paused")).To(Succeed())
	case strings.HasSuffix(o.GetName(), "-kubeconfig"):
		o.Object["stringData"] = map[string]any{"value": string(r.kubeconfig)}
	}
}

func (r *revival) cluster() *clusterv1.Cluster {
	list := &clusterv1.ClusterList{}
	r.List(list)
	r.Expect(list.Items).To(HaveLen(1))
	return &list.Items[0]
}

func (r *revival) controlPlane() *infrav1.PortalControlPlane {
	list := &infrav1.PortalControlPlaneList{}
	r.List(list)
	r.Expect(list.Items).To(HaveLen(1))
	return &list.Items[0]
}

// withoutDigest reports whether the release stored no digest of the kubeconfig. In that case, this release does not use the kubeconfig
// before it has asked the portal once.
func (r *revival) withoutDigest() bool {
	state, err := operation.Load(r.controlPlane())
	r.Expect(err).NotTo(HaveOccurred())
	return state.Record.KubeconfigDigest == ""
}

func (r *revival) unpause() {
	r.Helper()
	none := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":null}}`))
	r.Expect(r.Box.Client.Patch(r.Context(), r.cluster(), none)).To(Succeed())
}

// machines returns the UIDs of all Machines and PortalMachines.
func (r *revival) machines() []string {
	infra := &infrav1.PortalMachineList{}
	r.List(infra)
	var all []string
	for _, m := range r.Machines() {
		all = append(all, string(m.UID))
	}
	for _, m := range infra.Items {
		all = append(all, string(m.UID))
	}
	slices.Sort(all)
	return all
}

// changes returns the requests after the first begin ones that change something.
func (r *revival) changes(begin int) (all []string) {
	entries, _ := r.Box.Portal.RequestLogFrom(begin)
	for _, e := range entries {
		if e.IsChange() {
			all = append(all, e.String())
		}
	}
	return all
}
