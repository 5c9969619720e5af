// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
	"sigs.k8s.io/kind/pkg/exec"
	"sigs.k8s.io/kind/pkg/log"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
)

// kindNetwork is the docker network that kind creates for its first cluster and does not remove.
const kindNetwork = "kind"

// management is a management cluster.
type management struct {
	name       string // kind's name of the cluster, empty if the tests did not create it
	kubeconfig string // path of the file
	config     *rest.Config
	client.Client
}

func kind() *cluster.Provider {
	return cluster.NewProvider(cluster.ProviderWithLogger(log.NoopLogger{}))
}

// madeNetwork is true if the docker network did not exist before the tests.
var madeNetwork bool

// create creates a kind cluster and loads the images of clusterctl's components and ours.
func create(ctx context.Context, name string) (*management, error) {
	if err := kind().Delete(name, ""); err != nil { // left by an interrupted run
		return nil, err
	}
	if osexec.CommandContext(ctx, "docker", "network", "inspect", kindNetwork).Run() != nil {
		madeNetwork = true
	}
	kubeconfig := filepath.Join(env.dir, name+".kubeconfig")
	options := []cluster.CreateOption{
		cluster.CreateWithNodeImage(os.Getenv("KIND_NODE_IMAGE")),
		cluster.CreateWithKubeconfigPath(kubeconfig),
		cluster.CreateWithWaitForReady(3 * time.Minute),
	}
	if file := os.Getenv("E2E_KIND_CONFIG"); file != "" {
		options = append(options, cluster.CreateWithConfigFile(file))
	}
	if err := kind().Create(name, options...); err != nil {
		return nil, fmt.Errorf("kind cluster %s: %w%s", name, err, printed(err))
	}
	m, err := connect(name, kubeconfig)
	if err != nil {
		return nil, err
	}
	return m, m.load(ctx, append(slices.Clone(env.images), env.provider.image)...)
}

// printed returns the output of the command that made kind fail, as text. In kind's error it is a slice of bytes. The text adds a likely
// cause for a node that does not start.
func printed(err error) string {
	failed := exec.RunErrorForError(err)
	if failed == nil {
		return ""
	}
	const advice = "If the node did not start, inotify instances may have run out: sudo sysctl fs.inotify.max_user_instances=512"
	return fmt.Sprintf("\n%s\n%s", failed.Output, advice)
}

// connect creates the clients for a management cluster.
func connect(name, kubeconfig string) (*management, error) {
	m := &management{name: name, kubeconfig: kubeconfig}
	var err error
	if m.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return nil, err
	}
	m.config.QPS, m.config.Burst = 100, 200 // many specs, one client
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	if m.Client, err = client.New(m.config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	return m, nil
}

// waitForWebhooks waits until core's webhooks can be reached. kube-proxy learns a moment later than clusterctl that their Pod is ready, and
// refuses connections until then.
func (m *management) waitForWebhooks(ctx context.Context) error {
	probe := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: metav1.NamespaceDefault},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: infrav1.GroupVersion.Group, Kind: "PortalCluster", Name: "probe",
		}},
	}
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
		last = m.Create(ctx, probe.DeepCopy(), client.DryRunAll)
		if apierrors.IsInternalError(last) {
			return false, nil
		}
		return true, last
	})
	if err != nil {
		return fmt.Errorf("core's webhooks: %w", cmp.Or(last, err))
	}
	return nil
}

// load copies images from docker into all nodes.
func (m *management) load(ctx context.Context, images ...string) error {
	all, err := kind().ListInternalNodes(m.name)
	if err != nil {
		return err
	}
	for _, node := range all {
		if err := load(ctx, node, images); err != nil {
			return fmt.Errorf("load %v into node %s: %w", images, node, err)
		}
	}
	return nil
}

func load(ctx context.Context, node nodes.Node, images []string) error {
	archive, into := io.Pipe()
	save := osexec.CommandContext(ctx, "docker", append([]string{"save"}, images...)...)
	save.Stdout, save.Stderr = into, os.Stderr
	saved := make(chan error, 1)
	go func() { err := save.Run(); into.CloseWithError(err); saved <- err }()
	err := nodeutils.LoadImageArchive(node, archive)
	return errors.Join(err, archive.Close(), <-saved)
}

// removeKindClusters deletes the clusters, and the docker network if the tests created it.
func removeKindClusters() error {
	existing, err := kind().List()
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range []string{homeName, awayName} {
		if slices.Contains(existing, name) {
			failed = append(failed, kind().Delete(name, filepath.Join(env.dir, name+".kubeconfig")))
		}
	}
	if madeNetwork {
		_ = osexec.Command("docker", "network", "rm", kindNetwork).Run() // refused if another cluster has joined it
	}
	return errors.Join(failed...)
}

// namespaceLabel marks the namespaces that the tests created.
const namespaceLabel = "portal-e2e"

func newNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{namespaceLabel: ""}}}
}

// removeNamespaces deletes the marked namespaces.
func (m *management) removeNamespaces(ctx context.Context) error {
	list := &corev1.NamespaceList{}
	failed := []error{m.List(ctx, list, client.HasLabels{namespaceLabel})}
	for _, namespace := range list.Items {
		failed = append(failed, client.IgnoreNotFound(m.Delete(ctx, &namespace)))
	}
	return errors.Join(failed...)
}

// pods returns the Pods of the namespaces.
func (m *management) pods(ctx context.Context, namespaces ...string) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := m.List(ctx, list)
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !slices.Contains(namespaces, p.Namespace) }), err
}

// collectLogs writes to the artifacts the logs of everything that clusterctl and the tests have installed.
func (m *management) collectLogs(ctx context.Context) error {
	clientset, err := kubernetes.NewForConfig(m.config)
	if err != nil {
		return err
	}
	pods, err := m.pods(ctx, providerNamespace, portalNamespace, "capi-system", "cert-manager")
	failed := []error{err, os.MkdirAll(env.artifacts, 0o755)}
	for _, pod := range pods {
		logs := clientset.CoreV1().Pods(pod.Namespace).GetLogs
		text, err := logs(pod.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err != nil {
			failed = append(failed, err)
		}
		if before, err := logs(pod.Name, &corev1.PodLogOptions{Previous: true}).DoRaw(ctx); err == nil { // otherwise the container was never restarted
			text = slices.Concat(before, []byte("--- restarted\n"), text)
		}
		name := cmp.Or(m.name, "management") + "." + pod.Namespace + "." + pod.Name + ".log"
		failed = append(failed, os.WriteFile(filepath.Join(env.artifacts, name), text, 0o600))
	}
	return errors.Join(failed...)
}
