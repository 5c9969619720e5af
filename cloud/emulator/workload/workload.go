// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
)

// errClosed is returned by what is running or called when Clusters is closed.
var errClosed = errors.New("the workload clusters are closed")

// Options say where clusters run.
type Options struct {
	// BinDir holds the binaries that make kube builds.
	BinDir string
	// WorkDir receives certificates, logs and etcd's data. Each cluster has a directory in it, named cluster-<id>, which is removed with the
	// cluster. When empty, a temporary directory is used and removed by Close.
	WorkDir string
	// Bind is the address on which API servers listen, 127.0.0.1 when empty.
	Bind string
	// Host is the server's host in kubeconfigs. Empty: Bind, or 127.0.0.1 if Bind is not a single address.
	Host string
	// Reuse is for tests, in which the start of an API server costs most. Delete leaves the API server of the cluster running, and the next
	// cluster of the same version gets it, with another address, other credentials and no objects of the deleted cluster. An API server that
	// was upgraded, rotated or started again ends with its cluster.
	Reuse bool
	// NodeGrace is how long a Node stays Ready without heartbeats. The default is 20 s. On a busy machine, kwok's heartbeats may be late.
	NodeGrace time.Duration
}

// UserAgent identifies the portal's own requests to API servers.
const UserAgent = "portal-emulator"

// Clusters are the workload clusters of one emulated portal. It implements emulator.Workloads. All methods may be
// called concurrently, and different clusters do not wait for each other.
type Clusters struct {
	options Options
	scratch string // removed by Close
	etcd    *kubeserver.Etcd
	// boots limits how many control planes start at one instant: they would only slow each other down.
	boots chan struct{}
	life  context.Context //nolint:containedctx // Ends with Close.
	end   context.CancelCauseFunc

	mu       sync.Mutex
	clusters map[string]*cluster
	spares   []*plane // oldest first
	prepared int      // planes
	closed   bool
	calls    sync.WaitGroup

	started, reused atomic.Int32 // API servers
}

var (
	_ emulator.Workloads = (*Clusters)(nil)
	_ emulator.Rotator   = (*Clusters)(nil)
	_ emulator.Drainer   = (*Clusters)(nil)
	_ emulator.Stopper   = (*Clusters)(nil)
)

// New starts the etcd of the clusters. The caller closes them. If a binary is missing, the error says how to build it.
func New(ctx context.Context, options Options) (*Clusters, error) {
	if err := checkBinaries(options.BinDir); err != nil {
		return nil, err
	}
	if options.Bind != "" {
		if err := kubeserver.CheckBind(options.Bind); err != nil {
			return nil, err
		}
	}
	options.NodeGrace = cmp.Or(options.NodeGrace, nodeGrace)
	c := &Clusters{options: options, boots: make(chan struct{}, runtime.NumCPU()), clusters: map[string]*cluster{}}
	if options.WorkDir == "" {
		dir, err := os.MkdirTemp("", "portal-workload-")
		if err != nil {
			return nil, err
		}
		c.options.WorkDir, c.scratch = dir, dir
	}
	etcd, err := kubeserver.StartEtcd(ctx, c.binary("etcd"), c.options.WorkDir)
	if err != nil {
		return nil, errors.Join(err, c.removeScratch())
	}
	c.etcd = etcd
	c.life, c.end = context.WithCancelCause(context.Background())
	return c, nil
}

// Dir is the directory with the logs of all servers.
func (c *Clusters) Dir() string { return c.options.WorkDir }

// Starts returns how many API servers were started, and how often a cluster got one that another cluster had before.
func (c *Clusters) Starts() (started, reused int) { return int(c.started.Load()), int(c.reused.Load()) }

// Apply implements emulator.Workloads.
func (c *Clusters) Apply(ctx context.Context, want emulator.Workload) (removed []emulator.Removal, err error) {
	err = c.with(ctx, want.ID, true, func(ctx context.Context, cluster *cluster) error {
		removed, err = cluster.apply(ctx, want)
		return err
	})
	return removed, err
}

// Kubeconfig implements emulator.Workloads. The user is an administrator with a client certificate.
func (c *Clusters) Kubeconfig(_ context.Context, id string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cluster := c.clusters[id]
	if cluster == nil || cluster.plane == nil || !cluster.reachable.Load() {
		return nil, fmt.Errorf("workload cluster %s has no API server", id)
	}
	if lifetime := time.Duration(cluster.lifetime.Load()); lifetime > 0 {
		return cluster.plane.KubeconfigFor(lifetime)
	}
	return cluster.plane.Kubeconfig()
}

// Rotate implements emulator.Rotator.
func (c *Clusters) Rotate(ctx context.Context, id string, what emulator.Rotation) error {
	return c.with(ctx, id, false, func(ctx context.Context, cluster *cluster) error { return cluster.rotate(ctx, what) })
}

// Delete implements emulator.Workloads.
func (c *Clusters) Delete(ctx context.Context, id string) error {
	return c.with(ctx, id, false, func(ctx context.Context, cluster *cluster) error { return cluster.remove(ctx) })
}

// Close ends all clusters. Calls that are running return errClosed.
func (c *Clusters) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()

	c.end(errClosed)
	c.calls.Wait()
	c.mu.Lock()
	planes := c.planes()
	c.mu.Unlock()
	var stops sync.WaitGroup
	for _, p := range planes {
		stops.Go(p.End)
	}
	stops.Wait()
	c.etcd.Stop()
	return c.removeScratch()
}

// PIDs are the ids of all processes that run.
func (c *Clusters) PIDs() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := []int{c.etcd.PID()}
	for _, p := range c.planes() {
		ids = append(ids, p.PIDs()...)
	}
	return ids
}

// with runs the call for the cluster of that id, one at a time, until its context or Clusters end. A cluster that does not run is created, or
// the call is left out.
func (c *Clusters) with(ctx context.Context, id string, create bool, call func(context.Context, *cluster) error) error {
	cluster, err := c.begin(id, create)
	if cluster == nil || err != nil {
		return err
	}
	defer c.calls.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(errClosed) })()
	select {
	case cluster.turn <- struct{}{}:
		defer func() { <-cluster.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if cluster.plane == nil && !create {
		return nil
	}
	if err := call(ctx, cluster); err != nil {
		return fmt.Errorf("workload cluster %s: %w", id, err)
	}
	return nil
}

func (c *Clusters) begin(id string, create bool) (*cluster, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	found := c.clusters[id]
	if found == nil && create {
		found = &cluster{id: id, parent: c, turn: make(chan struct{}, 1), registered: map[string]string{}}
		c.clusters[id] = found
	}
	if found != nil {
		c.calls.Add(1)
	}
	return found, nil
}

func (c *Clusters) binary(name string) string { return filepath.Join(c.options.BinDir, name) }

func (c *Clusters) removeScratch() error {
	if c.scratch == "" {
		return nil
	}
	return os.RemoveAll(c.scratch)
}

// checkBinaries wants all binaries at the start rather than one after the other when they are needed.
func checkBinaries(dir string) error {
	names := []string{"etcd", "kube-controller-manager", "kube-scheduler", "kwok", stagesFile}
	for _, version := range Versions() {
		names = append(names, "kube-apiserver-"+version)
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("run make kube: %w", err)
		}
	}
	return nil
}
