// SPDX-License-Identifier: Apache-2.0

package capibehavior

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

var (
	box *sandbox.Sandbox
	// management is a client of the cluster in which Cluster API runs.
	management client.WithWatch
	// workload is a client of the API server that all Clusters share as their workload cluster. The names of their Nodes differ.
	workload client.WithWatch
	// kubeconfig is a kubeconfig of the workload API server.
	kubeconfig []byte
)

// TestMain starts the servers that all facts share.
func TestMain(m *testing.M) {
	if os.Getenv("PORTAL_TEST_WITHOUT_KUBE") != "" {
		os.Exit(m.Run()) // TestFacts skips
	}
	stop := func() {}
	os.Exit(suite.Main(m, &box, suite.Options{
		Sandbox:  sandbox.Options{Dir: os.Getenv("FACTS_DIR"), WithoutManager: true, WithoutPortal: true},
		Parallel: 64, // facts mostly wait for core, which reconciles an object once a second at most
		Setup: func(ctx context.Context) (err error) {
			if management, err = suite.WatchClient(box); err != nil {
				return err
			}
			stop, err = startWorkload(ctx)
			return err
		},
		Teardown: func(bool) error { stop(); return nil },
	}))
}

// startWorkload starts an API server without controllers, kubelets and a scheduler. The function that it returns stops all that it started.
func startWorkload(ctx context.Context) (stop func(), err error) {
	dir := filepath.Join(box.Dir, "workload")
	etcd, err := kubeserver.StartEtcd(ctx, box.Binary("etcd"), dir)
	if err != nil {
		return func() {}, err
	}
	server, err := kubeserver.New(kubeserver.Options{Name: "workload", Dir: dir, Etcd: etcd, EtcdPrefix: "/workload"})
	if err != nil {
		return etcd.Stop, err
	}
	stop = func() { server.Stop(); etcd.Stop() }
	return stop, useWorkload(ctx, server)
}

func useWorkload(ctx context.Context, server *kubeserver.Plane) error {
	if err := server.StartAPIServer(ctx, box.Binary("kube-apiserver")); err != nil {
		return err
	}
	var err, kubeconfigErr error
	workload, err = client.NewWithWatch(server.Config(), client.Options{Scheme: box.Client.Scheme()})
	kubeconfig, kubeconfigErr = server.Kubeconfig()
	if err := errors.Join(err, kubeconfigErr); err != nil {
		return err
	}
	// The controller for ServiceAccounts would create this one. The API server refuses Pods without it.
	return workload.Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "default"},
	})
}
