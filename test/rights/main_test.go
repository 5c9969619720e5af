// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	watched        = "fleet" // the namespace of config/namespaced
	managerAccount = "system:serviceaccount:capportal-system:capportal-manager"
	coreAccount    = "system:serviceaccount:capi-system:capi-manager"
)

var box *sandbox.Sandbox

// TestMain starts a sandbox whose managers have the rights of their releases. Our manager has those of config/namespaced.
func TestMain(m *testing.M) {
	options := sandbox.Options{Dir: os.Getenv("RIGHTS_DIR"), WithoutManager: true, ManagerArgs: []string{"--namespace=" + watched}}
	options.Portal.Durations = emulator.Durations{
		Pending: 100 * time.Millisecond, Create: time.Second, Scale: time.Second, Upgrade: time.Second, Delete: time.Second,
	}
	os.Exit(suite.Main(m, &box, suite.Options{Sandbox: options, Setup: setUp}))
}

func setUp(ctx context.Context) error {
	if err := box.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: watched}}); err != nil {
		return err
	}
	if err := confine(ctx); err != nil {
		return err
	}
	if err := demoteCore(ctx); err != nil {
		return err
	}
	return box.StartManager(ctx)
}

// confine replaces the manager's rights with those of config/namespaced.
func confine(ctx context.Context) error {
	overlay, err := os.MkdirTemp(box.Dir, "namespaced-")
	if err != nil {
		return err
	}
	released, err := kustomize(ctx, box.File("config", "default"))
	if err != nil {
		return err
	}
	files := map[string]string{"components.yaml": string(released), "kustomization.yaml": "resources: [components.yaml]\ncomponents: [namespaced]\n"}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(overlay, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	if err := os.CopyFS(filepath.Join(overlay, "namespaced"), os.DirFS(box.File("config", "namespaced"))); err != nil {
		return err
	}
	manifests, err := kustomize(ctx, overlay)
	if err != nil {
		return err
	}
	return apply(ctx, manifests, "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
}

// demoteCore makes core act as its ServiceAccount, with the roles of its release.
func demoteCore(ctx context.Context) error {
	manifests, err := os.ReadFile(box.Binary("capi-core/core-components.yaml"))
	if err != nil {
		return err
	}
	if err := apply(ctx, manifests, "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"); err != nil {
		return err
	}
	box.StopCore()
	administrator := box.Kubeconfig
	if box.Kubeconfig, err = kubeconfigOf(coreAccount, "system:serviceaccounts", "system:authenticated"); err != nil {
		return err
	}
	err = box.StartCore(ctx)
	box.Kubeconfig = administrator
	return err
}

func kustomize(ctx context.Context, folder string) ([]byte, error) {
	command := exec.CommandContext(ctx, box.Binary("kustomize"), "build", folder)
	var problems bytes.Buffer
	command.Stderr = &problems
	manifests, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("kustomize: %w\n%s", err, &problems)
	}
	return manifests, nil
}

// parse reads the documents of a YAML file.
func parse(manifests []byte) (all []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifests), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
		}
		all = append(all, object)
	}
}

// apply applies the objects of the given kinds.
func apply(ctx context.Context, manifests []byte, kinds ...string) error {
	objects, err := parse(manifests)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if !slices.Contains(kinds, object.GetKind()) {
			continue
		}
		applied := client.ApplyConfigurationFromUnstructured(object)
		if err := box.Client.Apply(ctx, applied, client.FieldOwner("rights"), client.ForceOwnership); err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// as returns a client of the management cluster that acts as the user.
func as(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(box.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	c, err := client.New(config, client.Options{Scheme: box.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// kubeconfigOf writes a kubeconfig that acts as the user.
func kubeconfigOf(user string, groups ...string) (string, error) {
	config, err := clientcmd.LoadFromFile(box.Kubeconfig)
	if err != nil {
		return "", err
	}
	for _, info := range config.AuthInfos {
		info.Impersonate, info.ImpersonateGroups = user, groups
	}
	file, err := os.CreateTemp(box.Dir, "user-*.kubeconfig")
	if err != nil {
		return "", err
	}
	return file.Name(), errors.Join(file.Close(), clientcmd.WriteToFile(*config, file.Name()))
}
