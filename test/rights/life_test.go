// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const name = "life"

// life is a Cluster in the namespace that the manager watches.
type life struct {
	*suite.Fixture
	cluster      *clusterv1.Cluster
	controlPlane *infrav1.PortalControlPlane
	deployment   *clusterv1.MachineDeployment
	others       []client.Object
}

func newLife(t *testing.T) *life {
	t.Helper()
	l := &life{Fixture: &suite.Fixture{T: t, WithT: suite.Patient(t), Box: box, Namespace: watched}}
	t.Cleanup(l.Explain)
	objects := suite.NewObjects(metav1.ObjectMeta{Namespace: watched, Name: name}, name)
	l.cluster, l.controlPlane, l.deployment = objects.Cluster, objects.ControlPlane, objects.Deployment
	l.others = []client.Object{
		box.IdentitySecret(client.ObjectKeyFromObject(l.cluster)), objects.PortalCluster, objects.Bootstrap, objects.Template,
	}
	return l
}

// TestLife checks a Cluster's life with the rights of config/namespaced and of core's release. In between, a person who may adopt saves and
// restores the objects. TestAdoption of package contract checks that a restore needs the right.
func TestLife(t *testing.T) {
	l := newLife(t)
	for _, o := range append([]client.Object{l.cluster, l.controlPlane, l.deployment}, l.others...) {
		l.Create(o)
	}
	l.AwaitReady(l.cluster, 2)
	l.Get(l.controlPlane)
	id := l.controlPlane.Spec.ClusterID
	suite.Change(l.Fixture, l.deployment, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = ptr.To[int32](3) })
	l.AwaitReady(l.cluster, 3)
	l.tenants()
	before := l.Changes()

	operator := "operator"
	kubeconfig := l.operator(operator)
	backup := filepath.Join(t.TempDir(), "backup")
	l.Expect(os.Mkdir(backup, 0o700)).To(Succeed())
	out, err := l.clusterctl(t.Context(), kubeconfig, "move", "--namespace", watched, "--to-directory", backup).CombinedOutput()
	l.Expect(err).NotTo(HaveOccurred(), string(out))
	l.lose()

	l.bind(operator, "capportal-adopter")
	l.Eventually(func() error {
		out, err := l.clusterctl(t.Context(), kubeconfig, "move", "--from-directory", backup).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}).Should(Succeed(), "a restore must succeed with the right")
	l.AwaitReady(l.cluster, 3)
	l.Get(l.controlPlane)
	l.Expect(l.controlPlane.Spec.ClusterID).To(Equal(id))
	l.Expect(l.Changes()).To(Equal(before), "the restore must change nothing at the portal")

	l.Expect(box.Client.Delete(t.Context(), l.cluster)).To(Succeed())
	l.Eventually(l.Gone(l.cluster)).Should(BeTrue())
	l.Expect(l.Changes()).To(Equal(append(before, "DELETE {cluster_id} 202")))
	l.nothingForbidden()
}

// operator writes the kubeconfig of a person who may create, read, update and delete every object, but has no other verb.
func (l *life) operator(user string) string {
	l.Helper()
	l.Create(&rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"},
		}},
	})
	l.bind(user, user)
	path, err := box.KubeconfigOf(user)
	l.Expect(err).NotTo(HaveOccurred())
	return path
}

// bind gives the user the rights of the ClusterRole in the whole cluster.
func (l *life) bind(user, role string) {
	l.Helper()
	l.Create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	})
}

// clusterctl returns a command of the real clusterctl.
func (l *life) clusterctl(ctx context.Context, kubeconfig string, args ...string) *exec.Cmd {
	flag := "--kubeconfig"
	if strings.HasPrefix(args[1], "--from") {
		flag = "--to-kubeconfig"
	}
	command := exec.CommandContext(ctx, box.Binary("clusterctl"), append(args, flag, kubeconfig)...)
	command.Env = append(os.Environ(), box.Environment()...)
	return command
}

// kinds returns an empty list for each kind of object that belongs to a Cluster.
func kinds() []client.ObjectList {
	return []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{},
		&infrav1.PortalClusterList{}, &infrav1.PortalControlPlaneList{}, &infrav1.PortalMachineList{}, &infrav1.PortalMachineTemplateList{},
		&infrav1.PortalBootstrapConfigList{}, &infrav1.PortalBootstrapConfigTemplateList{}, &corev1.SecretList{},
	}
}

// lose removes all objects of the namespace without any controller noticing, as the loss of a management cluster does.
func (l *life) lose() {
	l.Helper()
	paused := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+clusterv1.PausedAnnotation+`":""}}}`))
	for _, o := range []client.Object{l.cluster, l.others[1], l.controlPlane, l.deployment} {
		l.Expect(box.Client.Patch(l.Context(), o, paused)).To(Succeed())
		getter, _ := o.(conditions.Getter)
		l.Eventually(func() bool {
			l.Get(o)
			return conditions.IsTrue(getter, clusterv1.PausedCondition)
		}).Should(BeTrue(), "%T must be paused", o)
	}
	l.Eventually(func() (left int) {
		for _, list := range kinds() {
			l.Expect(box.Client.List(l.Context(), list, client.InNamespace(watched))).To(Succeed())
			l.Expect(meta.EachListItem(list, func(o runtime.Object) error {
				left++
				object, _ := o.(client.Object)
				if err := client.IgnoreNotFound(box.Client.Delete(l.Context(), object)); err != nil {
					return err
				}
				none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
				return client.IgnoreNotFound(box.Client.Patch(l.Context(), object, none))
			})).To(Succeed())
		}
		return left
	}).Should(BeZero(), "objects that are left")
}

// nothingForbidden checks in the logs of both managers that they lacked no right, except the provider's right to adopt.
func (l *life) nothingForbidden() {
	l.Helper()
	for _, file := range []string{"manager.log", "core.log"} {
		content, err := os.ReadFile(filepath.Join(box.Dir, file))
		l.Expect(err).NotTo(HaveOccurred())
		for line := range strings.Lines(string(content)) {
			if strings.Contains(strings.ToLower(line), "forbidden") && strings.Contains(line, watched) {
				l.Errorf("%s: %s", file, line)
			}
		}
	}
}
