// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

// Patience is how long a test waits without seeing any change before it fails. It is longer than the sum of all retries that a change may
// need, even on a busy machine: core connects to a new workload cluster after up to 30 s and then reads its Nodes ever more slowly, and the
// provider asks again 30 s after a refusal, and then after twice as long each time. A test that passes never waits for it.
const Patience = 10 * time.Minute

// pollingInterval is Gomega's, for what a Fixture does not watch.
const pollingInterval = 500 * time.Millisecond

// Patient returns a Gomega that waits for Patience.
func Patient(t *testing.T) *WithT {
	t.Helper()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(Patience)
	g.SetDefaultEventuallyPollingInterval(pollingInterval)
	g.SetDefaultConsistentlyPollingInterval(pollingInterval)
	return g
}

// Fixture is a test that uses one namespace and one portal account in a sandbox. It waits for changes by watches (watch.go).
type Fixture struct {
	*testing.T
	*WithT
	Box       *sandbox.Sandbox
	Namespace string
	// User is the user of the portal account. If User.Account is empty, the fixture shows what the portal knows of all accounts.
	User emulator.User
	// ClusterName is the name of the Cluster. Only Workload and the functions for Nodes need it.
	ClusterName string

	kubeconfig string // of workload
	workload   client.Client
}

// NewFixture creates the namespace of a test. The namespace has the ID of the user as its name. If the test fails, the fixture logs the
// objects in the namespace and the portal's request log. At the end it deletes the Clusters that the test has left, because their servers
// would slow down the next tests. It does not wait for that.
func NewFixture(t *testing.T, box *sandbox.Sandbox, user emulator.User) *Fixture {
	t.Helper()
	f := &Fixture{T: t, WithT: Patient(t), Box: box, Namespace: user.ID, User: user}
	f.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.Namespace}})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		_ = box.Client.DeleteAllOf(ctx, &clusterv1.Cluster{}, client.InNamespace(f.Namespace)) // without it, the next tests are only slower
	})
	t.Cleanup(f.Explain)
	return f
}

// Explain logs the objects and the portal's request log if the test has failed.
func (f *Fixture) Explain() {
	if f.Failed() {
		f.Log(f.Box.Describe(context.WithoutCancel(f.T.Context()), f.Namespace, f.User.Account))
	}
}

// IdentitySecret returns a Secret of this namespace with the credentials of the user.
func (f *Fixture) IdentitySecret(name string) *corev1.Secret {
	secret := f.Box.IdentitySecret(client.ObjectKey{Namespace: f.Namespace, Name: name})
	secret.StringData[infrav1.IdentityEmail], secret.StringData[infrav1.IdentityPassword] = f.User.Email, f.User.Password
	return secret
}

// Create creates an object.
func (f *Fixture) Create(o client.Object) {
	f.Helper()
	f.Expect(f.Box.Client.Create(f.Context(), o)).To(Succeed())
}

// Get reads the object again.
func (f *Fixture) Get(o client.Object) {
	f.Helper()
	f.Expect(f.Box.Client.Get(f.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
}

// List reads the objects of the namespace.
func (f *Fixture) List(list client.ObjectList) {
	f.Helper()
	f.Expect(f.Box.Client.List(f.Context(), list, client.InNamespace(f.Namespace))).To(Succeed())
}

// Change patches an object until the API server accepts the patch.
func Change[T client.Object](f *Fixture, o T, change func(T)) {
	f.Helper()
	ChangeIn(f, f.Box.Client, o, change)
}

// ChangeIn is Change for an object of another cluster.
func ChangeIn[T client.Object](f *Fixture, c client.Client, o T, change func(T)) {
	f.Helper()
	f.Eventually(func() error {
		if err := c.Get(f.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		before, _ := o.DeepCopyObject().(client.Object)
		change(o)
		return c.Patch(f.Context(), o, client.MergeFrom(before))
	}).Should(Succeed())
}

// Condition returns a function that reads a condition as "Status Reason: message".
func (f *Fixture) Condition(o client.Object, conditionType string) func() string {
	return func() string {
		if err := f.Box.Client.Get(f.Context(), client.ObjectKeyFromObject(o), o); err != nil {
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

// Machines returns the Machines of the namespace.
func (f *Fixture) Machines() []clusterv1.Machine {
	f.Helper()
	list := &clusterv1.MachineList{}
	f.List(list)
	return list.Items
}

// Available is the Condition Available of a Cluster that reports no problem.
const Available = "True " + clusterv1.ClusterAvailableReason + ": "

// AwaitReady waits until the Cluster is available and has the given number of Ready Machines.
func (f *Fixture) AwaitReady(cluster *clusterv1.Cluster, machines int) {
	f.Helper()
	f.Eventually(f.Condition(cluster.DeepCopy(), clusterv1.ClusterAvailableCondition)).Should(Equal(Available))
	f.Eventually(f.ReadyMachines).Should(Equal(machines), "Machines that are ready")
}

// ReadyMachines returns how many Machines are Ready, have a Node and are not being deleted. Core writes the conditions a request before
// status.nodeRef, so a Machine can be Ready and still have no Node.
func (f *Fixture) ReadyMachines() (ready int) {
	f.Helper()
	for _, m := range f.Machines() {
		if conditions.IsTrue(&m, clusterv1.MachineReadyCondition) && m.Status.NodeRef.IsDefined() && m.DeletionTimestamp.IsZero() {
			ready++
		}
	}
	return ready
}

// Left returns the objects of these kinds that exist in the namespace.
func (f *Fixture) Left(lists ...client.ObjectList) (left []string) {
	f.Helper()
	for _, list := range lists {
		f.List(list)
		items, err := meta.ExtractList(list)
		f.Expect(err).NotTo(HaveOccurred())
		for _, item := range items {
			o, _ := item.(client.Object)
			left = append(left, fmt.Sprintf("%T %s", o, o.GetName()))
		}
	}
	return left
}

// Gone returns a function that reports whether the object does not exist.
func (f *Fixture) Gone(o client.Object) func() bool {
	return func() bool {
		found, _ := o.DeepCopyObject().(client.Object)
		return apierrors.IsNotFound(f.Box.Client.Get(f.Context(), client.ObjectKeyFromObject(o), found))
	}
}
