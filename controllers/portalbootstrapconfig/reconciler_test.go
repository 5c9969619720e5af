// SPDX-License-Identifier: Apache-2.0

package portalbootstrapconfig

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/schemes"
)

var key = client.ObjectKey{Namespace: "default", Name: "prod-workers-x7k2p-4fgh5"}

// bench is a management cluster with one PortalBootstrapConfig.
type bench struct {
	*WithT
	t        *testing.T
	store    client.Client
	recorder *events.FakeRecorder
	config   *infrav1.PortalBootstrapConfig
	machine  *clusterv1.Machine
	cluster  *clusterv1.Cluster
}

func newBench(t *testing.T) *bench {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	b := &bench{
		WithT: NewWithT(t), t: t, recorder: events.NewFakeRecorder(100),
		cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "prod"}},
		machine: &clusterv1.Machine{ObjectMeta: meta, Spec: clusterv1.MachineSpec{ClusterName: "prod"}},
		config:  &infrav1.PortalBootstrapConfig{ObjectMeta: meta},
	}
	b.machine.UID, b.config.UID = "machine-uid", "config-uid"
	b.config.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: b.machine.Name, UID: b.machine.UID, Controller: ptr.To(true),
	}}
	return b
}

// reconcile stores the objects, if it is the first time, and reconciles once.
func (b *bench) reconcile(more ...client.Object) ctrl.Result {
	b.t.Helper()
	if b.store == nil {
		scheme := schemes.Of(b.t, corev1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme)
		b.store = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(b.config).
			WithObjects(append(more, b.cluster, b.machine, b.config)...).Build()
	}
	r := &Reconciler{Client: b.store, Recorder: b.recorder}
	result, err := r.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: key})
	b.Expect(err).NotTo(HaveOccurred())
	b.Expect(b.store.Get(b.t.Context(), key, b.config)).To(Succeed())
	return result
}

func (b *bench) secrets() []corev1.Secret {
	b.t.Helper()
	all := &corev1.SecretList{}
	b.Expect(b.store.List(b.t.Context(), all)).To(Succeed())
	return all.Items
}

func (b *bench) reason() string { return conditions.GetReason(b.config, infrav1.ReadyCondition) }

// TestSecret: the Secret of a Machine or a MachinePool follows the contract for bootstrap providers, and is empty.
func TestSecret(t *testing.T) {
	pool := &clusterv1.MachinePool{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "pool", UID: "pool-uid"},
		Spec:       clusterv1.MachinePoolSpec{ClusterName: "prod"},
	}
	for _, kind := range []string{"Machine", "MachinePool"} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t)
			if owner := &b.config.OwnerReferences[0]; kind != owner.Kind {
				owner.Kind, owner.Name, owner.UID = kind, pool.Name, pool.UID
			}
			b.reconcile(pool.DeepCopy())
			b.Expect(b.secrets()).To(HaveLen(1))
			secret := b.secrets()[0]
			b.Expect(secret.Name).To(Equal(key.Name))
			b.Expect(secret.Labels).To(HaveKeyWithValue(clusterv1.ClusterNameLabel, "prod"))
			b.Expect(secret.Data).To(Equal(map[string][]byte{"value": {}}))
			b.Expect(metav1.IsControlledBy(&secret, b.config)).To(BeTrue())
			b.Expect(b.config.Status.DataSecretName).To(Equal(secret.Name))
			b.Expect(b.config.Status.Initialization.DataSecretCreated).To(HaveValue(BeTrue()))
			b.Expect(b.reason()).To(Equal(infrav1.ReadyReason))
		})
	}
}

// TestOwnerComesBack moves the Secret, or restores it from a backup: without its owner, or with the UID that the config had before. The status of the
// config may be there, or not.
func TestOwnerComesBack(t *testing.T) {
	for title, change := range map[string]func(*corev1.Secret){
		"moved":             func(*corev1.Secret) {},
		"no owner":          func(s *corev1.Secret) { s.OwnerReferences = nil },
		"the UID of before": func(s *corev1.Secret) { s.OwnerReferences[0].UID = "config-uid-of-before" },
	} {
		for _, withStatus := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, with status %v", title, withStatus), func(t *testing.T) {
				b := newBench(t)
				b.reconcile()
				secret := b.secrets()[0]
				change(&secret)
				b.Expect(b.store.Update(t.Context(), &secret)).To(Succeed())
				if !withStatus {
					b.config.Status = infrav1.PortalBootstrapConfigStatus{}
					b.Expect(b.store.Status().Update(t.Context(), b.config)).To(Succeed())
				}
				b.reconcile()
				b.Expect(b.secrets()[0].OwnerReferences).To(HaveLen(1))
				b.Expect(b.secrets()[0].OwnerReferences[0].UID).To(Equal(b.config.UID))
				b.Expect(b.reason()).To(Equal(infrav1.ReadyReason))
				b.Expect(b.config.Status.Initialization.DataSecretCreated).To(HaveValue(BeTrue()))
				b.Expect(b.config.Status.DataSecretName).To(Equal(key.Name))
				b.Expect(b.secrets()).To(HaveLen(1))
			})
		}
	}
}

// TestSecretComesBack has the Secret deleted, as the garbage collector does with an owner that does not exist.
func TestSecretComesBack(t *testing.T) {
	b := newBench(t)
	b.reconcile()
	secret := b.secrets()[0]
	b.Expect(b.store.Delete(t.Context(), &secret)).To(Succeed())
	b.reconcile()
	b.Expect(b.secrets()).To(HaveLen(1))
	b.Expect(metav1.IsControlledBy(&b.secrets()[0], b.config)).To(BeTrue())
}

func TestWaitsForMachine(t *testing.T) {
	b := newBench(t)
	b.config.OwnerReferences = nil
	b.reconcile()
	b.Expect(b.reason()).To(Equal(infrav1.WaitingForObjectReason))
	b.Expect(b.secrets()).To(BeEmpty())
}

// TestSecretOfAnotherOwner checks that such a Secret is not touched, also if it looks like one of ours, and that one Warning names it, however many
// passes find it.
func TestSecretOfAnotherOwner(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	controlled := corev1.Secret{Type: clusterv1.ClusterSecretType, ObjectMeta: meta}
	controlled.Labels = map[string]string{clusterv1.ClusterNameLabel: "prod"}
	controlled.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: key.Name, UID: "theirs", Controller: ptr.To(true)}}
	for title, theirs := range map[string]corev1.Secret{
		"a person's":           {ObjectMeta: meta, Data: map[string][]byte{"value": []byte("theirs")}},
		"another controller's": controlled,
	} {
		t.Run(title, func(t *testing.T) {
			b := newBench(t)
			result := b.reconcile(theirs.DeepCopy())
			b.Expect(b.reason()).To(Equal(infrav1.SecretTakenReason))
			b.Expect(result.RequeueAfter).To(Equal(retryAfter))
			b.reconcile()
			b.Expect(b.recorder.Events).To(HaveLen(1))
			b.Expect(<-b.recorder.Events).To(HavePrefix("Warning %s Secret %s belongs to another owner", infrav1.SecretTakenReason, key.Name))
			b.Expect(b.config.Status.Initialization.DataSecretCreated).To(BeNil())
			b.Expect(b.secrets()[0].Data).To(Equal(theirs.Data))
			b.Expect(b.secrets()[0].OwnerReferences).To(Equal(theirs.OwnerReferences))
			b.Expect(b.store.Delete(t.Context(), &theirs)).To(Succeed())
			b.reconcile()
			b.Expect(b.reason()).To(Equal(infrav1.ReadyReason))
		})
	}
}

func TestPausedAndDeleted(t *testing.T) {
	b := newBench(t)
	b.cluster.Spec.Paused = ptr.To(true)
	b.reconcile()
	b.Expect(conditions.IsTrue(b.config, clusterv1.PausedCondition)).To(BeTrue())
	b.Expect(b.secrets()).To(BeEmpty())

	b = newBench(t)
	b.config.DeletionTimestamp, b.config.Finalizers = ptr.To(metav1.Now()), []string{"test.capportal.example/stay"}
	b.reconcile()
	b.Expect(b.secrets()).To(BeEmpty(), "nothing is made for what goes")
}
