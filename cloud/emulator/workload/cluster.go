// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
)

// controllers are those a user of a cluster without storage and networks can notice.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"cronjob-controller",
	"daemonset-controller",
	"deployment-controller",
	"disruption-controller",
	"garbage-collector-controller",
	"job-controller",
	"namespace-controller",
	"node-lifecycle-controller",
	"pod-garbage-collector-controller",
	"replicaset-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"statefulset-controller",
	"taint-eviction-controller",
	"ttl-after-finished-controller",
}

// stagesFile, beside the binaries, configures how kwok sends heartbeats of Nodes and starts and ends Pods. It is kwok's own.
const stagesFile = "kwok-stages.yaml"

// kubelets is the name of the server that plays them.
const kubelets = "kwok"

// nodeGrace is the default of Options.NodeGrace. Kubernetes' own 50 s would make people wait who want to see what happens to a machine that
// is gone.
const nodeGrace = 20 * time.Second

// longestLease limits the duration of the Nodes' leases, which kwok renews four times in that time. It is the default of kubelets.
const longestLease = 40 * time.Second

//go:embed kubelet.yaml
var kubeletStage []byte

// cluster is one workload cluster. A caller that changes it holds its turn.
type cluster struct {
	id        string
	parent    *Clusters
	plane     *plane // nil before the first start and after the end. It is changed under the parent's mu, too
	client    kubernetes.Interface
	turn      chan struct{}
	reachable atomic.Bool // the API server has answered once

	controlMarks emulator.ControlMarks
	barePodsStay bool         // a Pod without a controller fails a drain
	lifetime     atomic.Int64 // of credentials in kubeconfigs, a time.Duration

	registered map[string]string // kubelet version with which a machine last registered, by its id
	addresses  int               // handed out so far
}

// connect makes the client of the portal's own doings.
func (c *cluster) connect() (err error) {
	config := c.plane.Config()
	config.UserAgent = UserAgent
	c.client, err = kubernetes.NewForConfig(config)
	return err
}

// rotate changes how the cluster is reached: its API server, and with it all others, start again.
func (c *cluster) rotate(ctx context.Context, what emulator.Rotation) error {
	if err := c.plane.Rotate(what.Credentials, what.Endpoint, what.Authority); err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx, c.plane.version); err != nil {
		return err
	}
	return c.startOthers(ctx)
}

func (c *cluster) apply(ctx context.Context, want emulator.Workload) (removed []emulator.Removal, err error) {
	c.controlMarks, c.barePodsStay = want.ControlMarks, want.BarePodsStay
	c.lifetime.Store(int64(want.KubeconfigLifetime))
	if err := c.serve(ctx, want.Version); err != nil {
		return nil, err
	}
	servers, startCtx := errgroup.WithContext(ctx)
	servers.Go(func() error { return c.startOthers(startCtx) })
	servers.Go(func() error {
		var err error
		removed, err = c.applyNodes(startCtx, want.Nodes)
		return err
	})
	if err := servers.Wait(); err != nil {
		return removed, err
	}
	return removed, c.awaitReady(ctx, want.Nodes)
}

// serve has the API server answer in the given version: it starts, it is replaced, which interrupts it for seconds, or it is one that has
// served another cluster.
func (c *cluster) serve(ctx context.Context, version string) error {
	if _, err := serverBinary(version); err != nil {
		return err
	}
	if c.plane == nil {
		if err := c.parent.furnish(c, version); err != nil {
			return err
		}
	}
	var err error
	switch {
	case c.plane.spare:
		err = c.reuse(ctx)
	case c.plane.version == version && c.plane.APIServerRunning():
		return nil
	default:
		err = c.boot(ctx, version)
	}
	if err != nil {
		return err
	}
	if err := c.connect(); err != nil {
		return err
	}
	c.reachable.Store(true)
	return nil
}

// boot starts the API server when fewer others than the machine has CPUs are starting.
func (c *cluster) boot(ctx context.Context, version string) error {
	select {
	case c.parent.boots <- struct{}{}:
		defer func() { <-c.parent.boots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return c.startAPIServer(ctx, version)
}

func (c *cluster) startAPIServer(ctx context.Context, version string) error {
	name, err := serverBinary(version)
	if err != nil {
		return err
	}
	c.plane.changed = c.plane.version != ""
	if err := c.plane.StartAPIServer(ctx, c.parent.binary(name)); err != nil {
		return err
	}
	c.plane.version = version
	c.parent.started.Add(1)
	return nil
}

// startOthers runs what is not running of the servers around the API server.
func (c *cluster) startOthers(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return c.plane.StartControllerManager(ctx, c.parent.binary("kube-controller-manager"),
			"--controllers="+strings.Join(controllers, ","),
			"--node-monitor-grace-period="+c.parent.options.NodeGrace.String())
	})
	group.Go(func() error { return c.plane.StartScheduler(ctx, c.parent.binary("kube-scheduler")) })
	group.Go(func() error { return c.startKubelets(ctx) })
	return group.Wait()
}

// startKubelets runs kwok for the Nodes that carry its label. The leases of its predecessor are removed: it would wait
// for them to expire.
func (c *cluster) startKubelets(ctx context.Context) error {
	if c.plane.Running(kubelets) {
		return nil
	}
	leases := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	home := c.parent.dir(c.plane)
	kubelet := filepath.Join(home, "kubelet.yaml")
	if err := os.WriteFile(kubelet, kubeletStage, 0o600); err != nil {
		return err
	}
	return c.plane.Run(ctx, kubeserver.Spec{
		Name: kubelets,
		Path: c.parent.binary("kwok"),
		Args: []string{
			"--config=" + kubelet, "--config=" + c.parent.binary(stagesFile),
			"--kubeconfig=" + c.plane.KubeconfigFile(),
			"--manage-nodes-with-label-selector=" + kubeletLabel + "=" + kubeletLabelValue,
			fmt.Sprintf("--node-lease-duration-seconds=%.0f", min(c.parent.options.NodeGrace, longestLease).Seconds()),
			"--cidr=10.244.0.0/16",
		},
		Env: []string{"HOME=" + home}, // Where it would look for more configuration.
	})
}

// remove ends the cluster with all it holds.
func (c *cluster) remove(ctx context.Context) error {
	c.reachable.Store(false)
	c.registered, c.addresses = map[string]string{}, 0
	return c.vacate(ctx)
}
