// SPDX-License-Identifier: Apache-2.0

package portals

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// The limits of a life. A life that exceeds them counts as stuck.
const (
	maxTries = 300
	maxLife  = 48 * time.Hour
	settle   = 5 * time.Minute // after which a person finds the result of a lost call at the portal
	repair   = 3 * time.Hour   // after which the portal's operator repairs a cluster
)

// operator takes a cluster through its life by the provider's rules. It repeats changes with an absolute target, but never a creation. If a
// result cannot be found out otherwise, a person looks it up in the portal's records.
type operator struct {
	ctx    context.Context
	portal *emulator.Portal
	client *cloud.Client
	judge  *judge
	story  []string
	began  time.Time

	cluster  string
	versions []string // ids, oldest first

	impatient bool            // deletes a cluster in Alert instead of waiting for its repair
	ended     map[string]bool // jobs that the portal's operator ended
}

func (o *operator) logf(format string, args ...any) {
	if len(args) == 1 && args[0] == "" {
		return
	}
	o.story = append(o.story, fmt.Sprintf("%8s  %s", time.Since(o.began).Round(time.Second), fmt.Sprintf(format, args...)))
}

var errStuck = errors.New("the life does not end")

// wait sleeps as long as the provider would wait. A person acts within minutes.
func (o *operator) wait(c condition) {
	time.Sleep(max(c.after, 10*time.Second))
}

// persist repeats a call until it succeeds. If the call must not be repeated after a lost answer, call has to handle that itself.
func (o *operator) persist(what string, call func() error, legal ...string) error {
	for range maxTries {
		err := call()
		if err == nil {
			o.logf("%s: done", what)
			return nil
		}
		o.logf("%s: %v", what, err)
		shown := conditionOf(err)
		if !errors.Is(err, errLost) && !errors.Is(err, errUnrepaired) {
			shown = o.judge.judge(err, legal...)
		}
		if errors.Is(err, errUnrepaired) {
			return err
		}
		if time.Since(o.began) > maxLife {
			break
		}
		o.wait(shown)
	}
	return fmt.Errorf("%s: %w", what, errStuck)
}

// live runs the whole life.
func (o *operator) live() error {
	for _, step := range []func() error{
		o.look, o.network, o.create, o.kubeconfig,
		func() error { return o.scale(4) }, func() error { return o.scale(2) }, o.upgrade, o.delete, o.tidy,
	} {
		if err := step(); err != nil && !errors.Is(err, errUnrepaired) {
			return err
		}
	}
	return nil
}

func (o *operator) look() error {
	err := o.persist("log in", func() error { _, err := o.client.UserID(o.ctx); return err })
	if err != nil {
		return err
	}
	return o.persist("versions", func() error {
		versions, err := o.client.KubernetesVersions(o.ctx)
		if err == nil && len(versions) != 3 {
			return fmt.Errorf("%d versions are listed", len(versions))
		}
		return err
	})
}

// network creates a network once. A person finds the network of a lost call by its address range.
func (o *operator) network() error {
	var created cloud.Created
	err := o.persist("create network", func() error {
		var err error
		created, err = o.client.CreateNetwork(o.ctx, cloud.CreateNetworkRequest{CIDR: "10.1.0.0/24"})
		if unknown(err) {
			o.judge.judge(err)
			created, err = o.foundNetwork(), nil
			if created.ID == "" {
				return errLost
			}
		}
		return err
	})
	if err != nil || created.ID != "" {
		return err
	}
	job, err := o.follow(created.Job.ID)
	if err != nil {
		return err
	}
	id, ok := job.CreatedID(cloud.KindNetwork, "")
	if !ok {
		id = o.foundNetwork().ID
	}
	if id == "" {
		return o.network() // the job failed
	}
	networks := o.portal.Networks()
	if !slices.ContainsFunc(networks, func(n emulator.Network) bool { return n.ID == id }) {
		return fmt.Errorf("%s is not a network", id)
	}
	return nil
}

// errLost means that a person has found no network or cluster, and allows another try.
var errLost = errors.New("nothing was made")

func (o *operator) foundNetwork() cloud.Created {
	time.Sleep(settle)
	for _, n := range o.portal.Networks() {
		if n.CIDR == "10.1.0.0/24" {
			o.logf("a person finds network %s", n.ID)
			return cloud.Created{ID: n.ID}
		}
	}
	o.logf("a person finds no network")
	return cloud.Created{}
}

// create creates the cluster. After each failed job it tries again under a new name.
func (o *operator) create() error {
	for try := range 20 {
		name := fmt.Sprintf("demo-%d", try)
		id, err := o.createNamed(name)
		if err != nil {
			return err
		}
		if id == "" {
			continue
		}
		if !slices.ContainsFunc(o.portal.Clusters(), func(c emulator.Cluster) bool { return c.ID == id && c.Name == name }) {
			return fmt.Errorf("%s is not cluster %s", id, name)
		}
		o.cluster = id
		return nil
	}
	return errStuck
}

// createNamed returns the id of the created cluster, or "" if the job failed.
func (o *operator) createNamed(name string) (string, error) {
	var job cloud.Job
	var id string
	err := o.persist("create "+name, func() error {
		found, err := o.client.FindClusters(o.ctx, name) // because a person may have chosen the name
		switch {
		case err == nil && len(found) > 0:
			return fmt.Errorf("%s exists: %+v", name, found)
		case err != nil && !cloud.IsUnsupported(err):
			return err
		}
		job, err = o.client.CreateCluster(o.ctx, cloud.CreateClusterRequest{
			Name: name, Description: "random", ZoneID: "zone-1", KubernetesVersionID: o.versions[0], ServiceOfferingID: "medium",
			Size: 3, ControlNodes: 1, VPCID: o.portal.VPCs()[0].ID, SSHKeyPair: "key",
		})
		if unknown(err) {
			o.judge.judge(err)
			if id = o.find(name); id == "" && !o.failed(name) {
				return errLost
			}
			return nil
		}
		return err
	})
	if err != nil || id != "" || job.ID == "" {
		return id, err
	}
	if job, err = o.follow(job.ID); err != nil {
		return "", err
	}
	switch id, ok := job.CreatedID(cloud.KindCluster, name); {
	case job.Failed():
		return "", nil
	case ok:
		return id, nil
	}
	return o.find(name), nil // the portal forgot the job, or the job names no id
}

// find looks for the cluster in the portal's list, then in the portal's records as a person would.
func (o *operator) find(name string) string {
	for time.Sleep(settle); o.creating(name); time.Sleep(settle) {
		o.logf("%s is still being created", name)
	}
	found, err := o.client.FindClusters(o.ctx, name)
	if err == nil && len(found) == 1 && found[0].State == string(emulator.ClusterRunning) {
		o.logf("the portal lists %s", found[0].ID)
		return found[0].ID
	}
	if err != nil && !cloud.IsUnsupported(err) {
		o.judge.judge(err)
	}
	for _, c := range o.portal.Clusters() {
		if c.Name == name && c.State == emulator.ClusterRunning {
			o.logf("a person finds cluster %s", c.ID)
			return c.ID
		}
	}
	o.logf("a person finds no cluster")
	return ""
}

func (o *operator) creating(name string) bool {
	return slices.ContainsFunc(o.portal.Clusters(), func(c emulator.Cluster) bool {
		return c.Name == name && c.State == emulator.ClusterCreating
	})
}

// failed reports whether the portal has a record of a failed creation of that name.
func (o *operator) failed(name string) bool {
	return slices.ContainsFunc(o.portal.Clusters(), func(c emulator.Cluster) bool {
		return c.Name == name && c.State == emulator.ClusterFailed
	})
}

// follow polls a job until it ends. It returns a job that the portal forgot as succeeded without a result.
func (o *operator) follow(id string) (job cloud.Job, err error) {
	began := time.Now()
	err = o.persist("job "+id, func() error {
		for !job.Done() {
			if job, err = o.client.Job(o.ctx, id); err != nil {
				if cloud.IsNotFound(err) {
					o.judge.judge(err, o.forgotten(id)...)
					time.Sleep(time.Hour) // until a person confirms that the job ended
					job = cloud.Job{ID: id, Status: cloud.JobSucceeded}
					return nil
				}
				return err
			}
			if time.Since(began) > repair {
				o.repairStuck(id)
			}
			if time.Since(o.began) > maxLife {
				return errStuck
			}
			time.Sleep(min(5*time.Second+time.Since(began)/10, 30*time.Second))
		}
		return nil
	})
	if err == nil && job.Failed() {
		o.judge.judgeJob(job, o.ended[id])
		o.logf("job %s has failed: %v", id, job.Error)
	}
	return job, err
}

// forgotten returns the reason of a missing job if the portal's records show that the portal forgot the job.
func (o *operator) forgotten(id string) []string {
	for _, j := range o.portal.Jobs() {
		if j.ID == id && j.Forgotten {
			return []string{infrav1.RefusedReason}
		}
	}
	return nil
}

func (o *operator) kubeconfig() error {
	return o.persist("kubeconfig", func() error { _, err := o.client.Kubeconfig(o.ctx, o.cluster); return err })
}
