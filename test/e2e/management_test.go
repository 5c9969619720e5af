// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
	"sigs.k8s.io/kind/pkg/exec"
	"sigs.k8s.io/kind/pkg/log"

	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

// homeName is kind's name of the management cluster.
const homeName = "portal-e2e"

// kubeconfigVariable names an existing management cluster.
const kubeconfigVariable = "E2E_USE_EXISTING"

func kind() *cluster.Provider {
	return cluster.NewProvider(cluster.ProviderWithLogger(log.NoopLogger{}))
}

// newHome returns an existing management cluster, or a new kind cluster with the images of clusterctl's components and ours.
func newHome(ctx context.Context) (*sandbox.Sandbox, error) {
	if existing := os.Getenv(kubeconfigVariable); existing != "" {
		return connect(existing)
	}
	if err := kind().Delete(homeName, ""); err != nil { // left by an interrupted run
		return nil, err
	}
	kubeconfig := filepath.Join(env.dir, "kubeconfig")
	options := []cluster.CreateOption{
		cluster.CreateWithNodeImage(os.Getenv("KIND_NODE_IMAGE")),
		cluster.CreateWithKubeconfigPath(kubeconfig),
		cluster.CreateWithWaitForReady(3 * time.Minute),
	}
	if file := os.Getenv("E2E_KIND_CONFIG"); file != "" {
		options = append(options, cluster.CreateWithConfigFile(file))
	}
	if err := kind().Create(homeName, options...); err != nil {
		if failed := exec.RunErrorForError(err); failed != nil { // in kind's error, the output is a slice of bytes
			const advice = "If the node did not start, inotify instances may have run out: sudo sysctl fs.inotify.max_user_instances=512"
			err = fmt.Errorf("%w\n%s\n%s", err, failed.Output, advice)
		}
		return nil, err
	}
	others := strings.FieldsFunc(os.Getenv("E2E_LOAD_IMAGES"), func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
	if err := load(ctx, append(others, env.provider.image)...); err != nil {
		return nil, err
	}
	return connect(kubeconfig)
}

// connect returns the management cluster in the form that the fixtures of other suites use.
func connect(kubeconfig string) (*sandbox.Sandbox, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme, err := sandbox.NewScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	return &sandbox.Sandbox{Kubeconfig: kubeconfig, Config: config, Client: c, Dir: env.artifacts}, err
}

// load copies images from docker into the nodes of the kind cluster.
func load(ctx context.Context, images ...string) error {
	nodes, err := kind().ListInternalNodes(homeName)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		archive, into := io.Pipe()
		save := osexec.CommandContext(ctx, "docker", append([]string{"save"}, images...)...)
		save.Stdout, save.Stderr = into, os.Stderr
		saved := make(chan error, 1)
		go func() { err := save.Run(); into.CloseWithError(err); saved <- err }()
		err := nodeutils.LoadImageArchive(node, archive)
		if err := errors.Join(err, archive.Close(), <-saved); err != nil {
			return fmt.Errorf("load %v into node %s: %w", images, node, err)
		}
	}
	return nil
}

// buildImage builds an image from a Dockerfile and files of a folder. Files may be links to files elsewhere.
func buildImage(ctx context.Context, tag, dockerfile, dir string, files ...string) error {
	if err := os.WriteFile(filepath.Join(env.dir, "Dockerfile"), []byte(dockerfile), 0o600); err != nil {
		return err
	}
	pack := osexec.CommandContext(ctx, "tar", append([]string{"-chf", "-", "-C", env.dir, "Dockerfile", "-C", dir}, files...)...)
	pack.Stderr = os.Stderr
	archive, err := pack.StdoutPipe()
	if err != nil {
		return err
	}
	if err := pack.Start(); err != nil {
		return err
	}
	build := osexec.CommandContext(ctx, "docker", "build", "--quiet", "--tag", tag, "-")
	build.Stdin = archive
	out, err := build.CombinedOutput()
	if err = errors.Join(err, archive.Close(), pack.Wait()); err != nil {
		return fmt.Errorf("image %s of files in %s: %w: %s", tag, dir, err, out)
	}
	return nil
}

// removeHome deletes the kind cluster, or what the tests have installed in an existing cluster.
func removeHome(ctx context.Context) error {
	if os.Getenv(kubeconfigVariable) == "" {
		return kind().Delete(homeName, "")
	}
	if env.home == nil {
		return nil
	}
	failed := []error{env.clusterctl.remove(ctx)}
	for _, name := range []string{portalNamespace, quickStartNamespace, upgradeNamespace} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		failed = append(failed, client.IgnoreNotFound(env.home.Client.Delete(ctx, namespace)))
	}
	return errors.Join(failed...)
}

// pods returns the Pods of the namespaces.
func pods(ctx context.Context, namespaces ...string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := env.home.Client.List(ctx, list)
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !slices.Contains(namespaces, p.Namespace) }), err
}

// collectLogs writes to the artifacts the logs of everything that clusterctl and the tests have installed.
func collectLogs(ctx context.Context) error {
	clientset, err := kubernetes.NewForConfig(env.home.Config)
	if err != nil {
		return err
	}
	all, err := pods(ctx, providerNamespace, portalNamespace, "capi-system", "cert-manager")
	failed := []error{err, os.MkdirAll(env.artifacts, 0o755)}
	for _, pod := range all {
		for _, previous := range []bool{false, true} {
			text, err := clientset.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Previous: previous}).DoRaw(ctx)
			if err != nil && previous {
				continue // the container was never restarted
			}
			name := pod.Namespace + "." + pod.Name + map[bool]string{true: ".previous"}[previous] + ".log"
			failed = append(failed, err, os.WriteFile(filepath.Join(env.artifacts, name), text, 0o600))
		}
	}
	return errors.Join(failed...)
}
