// SPDX-License-Identifier: Apache-2.0

package capibehavior

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

var (
	// management is a client of the cluster in which Cluster API runs.
	management client.WithWatch
	// workload is a client of the API server that all Clusters share as their workload cluster. The names of their Nodes differ.
	workload client.WithWatch
	// kubeconfig is a kubeconfig of the workload API server.
	kubeconfig []byte
)

// TestMain starts the servers that all facts share.
func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	// Facts mostly wait for core, which reconciles an object once a second at most.
	if err := flag.Set("test.parallel", "64"); err != nil {
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	if os.Getenv("PORTAL_TEST_WITHOUT_KUBE") != "" {
		return m.Run() // TestFacts skips
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	box, err := sandbox.Start(ctx, sandbox.Options{
		Out: os.Stderr, Dir: os.Getenv("FACTS_DIR"), WithoutManager: true, WithoutPortal: true,
	})
	if err != nil {
		return failed(err)
	}
	defer func() {
		if err := box.Close(); err != nil {
			code = failed(err)
		}
	}()
	if management, err = client.NewWithWatch(box.Config, client.Options{Scheme: box.Client.Scheme()}); err != nil {
		return failed(err)
	}
	stop, err := startWorkload(ctx, box)
	if err != nil {
		return failed(err)
	}
	defer stop()
	return m.Run()
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// startWorkload starts an API server without controllers, kubelets and a scheduler.
func startWorkload(ctx context.Context, box *sandbox.Sandbox) (stop func(), err error) {
	dir := filepath.Join(box.Dir, "workload")
	etcd, err := kubeserver.StartEtcd(ctx, box.Binary("etcd"), dir)
	if err != nil {
		return nil, err
	}
	server, err := kubeserver.New(kubeserver.Options{Name: "workload", Dir: dir, Etcd: etcd, EtcdPrefix: "/workload"})
	if err != nil {
		etcd.Stop()
		return nil, err
	}
	stop = func() { server.Stop(); etcd.Stop() }
	if err := useWorkload(ctx, box, server); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

func useWorkload(ctx context.Context, box *sandbox.Sandbox, server *kubeserver.Plane) error {
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
