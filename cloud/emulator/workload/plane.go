// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/capportal/cluster-api-provider-portal/internal/kubeserver"
)

// maxSpares is how many spare planes there are at most. Each takes 300 MB.
const maxSpares = 4

// plane is a control plane. It serves one cluster or, with Options.Reuse, one cluster after another.
type plane struct {
	*kubeserver.Plane
	home    string // names its directory, and its prefix in etcd
	version string // of its API server, empty before the first start
	changed bool   // it was upgraded, rotated or started again, so no other cluster may have it
	spare   bool   // it has no user, and the objects of the cluster that it served
}

func (p *plane) prefix() string { return "/clusters/" + p.home }

// furnish gives the cluster a plane: a spare one of the version if there is one, else a new one. A link with the cluster's id leads to the
// plane's directory.
func (c *Clusters) furnish(cl *cluster, version string) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.spares, func(p *plane) bool { return p.version == version && p.APIServerRunning() })
	if i >= 0 {
		cl.plane = c.spares[i]
		c.spares = slices.Delete(c.spares, i, i+1)
	} else if cl.plane, err = c.prepare(cl.id); err != nil {
		return err
	}
	return os.Symlink(cl.plane.home, c.clusterDir(cl.id))
}

// prepare makes a plane whose servers do not run yet. Callers hold mu.
func (c *Clusters) prepare(name string) (*plane, error) {
	c.prepared++
	p := &plane{home: fmt.Sprintf("plane-%d", c.prepared)}
	var err error
	p.Plane, err = kubeserver.New(kubeserver.Options{
		Name:       name,
		Dir:        c.dir(p),
		Etcd:       c.etcd,
		EtcdPrefix: p.prefix(),
		Bind:       c.options.Bind,
		Host:       c.options.Host,
		Reusable:   c.options.Reuse,
		// The servers of a portal cluster are mostly idle, and there are many. Go's garbage collector would take a third of the CPU time of
		// their start. It uses less with one thread, and if it runs less often.
		Env: []string{"GOMAXPROCS=1", "GOGC=200"},
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// reuse makes the spare plane that the cluster has taken its own: with another address and other credentials, and without the objects of the
// previous cluster.
func (c *cluster) reuse(ctx context.Context) error {
	err := c.plane.Reuse(ctx, c.id)
	if err == nil {
		err = c.parent.etcd.RemoveExcept(ctx, c.plane.prefix(), keptForReuse)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("use %s again: %w", c.plane.home, err), c.vacate(ctx))
	}
	c.plane.spare = false
	c.parent.reused.Add(1)
	return nil
}

// vacate takes the plane from its cluster. The plane ends or, if another cluster may have it, becomes a spare one.
func (c *cluster) vacate(ctx context.Context) error {
	left, parent := c.plane, c.parent
	reusable := parent.options.Reuse && !left.changed && !left.spare && left.APIServerRunning()
	if reusable {
		left.Detach()
		left.spare = true
	}
	parent.mu.Lock()
	c.plane = nil
	ending := []*plane{left}
	if reusable {
		parent.spares = append(parent.spares, left)
		surplus := max(len(parent.spares)-maxSpares, 0)
		ending, parent.spares = parent.spares[:surplus:surplus], parent.spares[surplus:]
	}
	parent.mu.Unlock()

	var failed []error
	if err := os.Remove(parent.clusterDir(c.id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		failed = append(failed, err)
	}
	for _, p := range ending {
		failed = append(failed, parent.endPlane(ctx, p))
	}
	return errors.Join(failed...)
}

// endPlane stops a plane and removes all that it has.
func (c *Clusters) endPlane(ctx context.Context, p *plane) error {
	p.End()
	return errors.Join(c.etcd.Remove(ctx, p.prefix()), os.RemoveAll(c.dir(p)))
}

// planes returns those of all clusters, and the spare ones. Callers hold mu.
func (c *Clusters) planes() []*plane {
	all := slices.Clone(c.spares)
	for _, cluster := range c.clusters {
		if cluster.plane != nil {
			all = append(all, cluster.plane)
		}
	}
	return all
}

func (c *Clusters) dir(p *plane) string { return filepath.Join(c.options.WorkDir, p.home) }

func (c *Clusters) clusterDir(id string) string {
	return filepath.Join(c.options.WorkDir, "cluster-"+id)
}

// kept are the keys that stay in etcd when a plane is used again, as patterns of path.Match: the objects that an API server makes when it
// starts. The kube-controller-manager of the next cluster makes the ServiceAccounts and the authority's ConfigMaps of the namespaces again.
var kept = []string{
	"apiregistration.k8s.io/apiservices/*", // the API server removes those of CustomResourceDefinitions itself
	"clusterrolebindings/cluster-admin",
	"clusterrolebindings/system:*",
	"clusterroles/admin",
	"clusterroles/cluster-admin",
	"clusterroles/edit",
	"clusterroles/system:*",
	"clusterroles/view",
	"configmaps/kube-system/extension-apiserver-authentication",
	"configmaps/kube-system/kube-apiserver-legacy-service-account-token-tracking",
	"flowschemas/*",
	"ipaddresses/10.96.0.1", // of the Service kubernetes
	"leases/kube-system/apiserver-*",
	"namespaces/default",
	"namespaces/kube-node-lease",
	"namespaces/kube-public",
	"namespaces/kube-system",
	"priorityclasses/system-*",
	"prioritylevelconfigurations/*",
	"ranges/*", // the addresses and ports of Services, which the API server repairs
	"rolebindings/kube-*/system:*",
	"roles/kube-*/extension-apiserver-authentication-reader",
	"roles/kube-*/system:*",
	"servicecidrs/kubernetes",
	"services/specs/default/kubernetes",
}

func keptForReuse(key string) bool {
	return slices.ContainsFunc(kept, func(pattern string) bool {
		matches, _ := path.Match(pattern, key) // fails only for a pattern that is malformed
		return matches
	})
}
