// SPDX-License-Identifier: Apache-2.0

package portals

import (
	"fmt"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// change repeats a change with an absolute target until the portal's records show the target. Lost answers to its own calls may keep the
// cluster busy.
func (o *operator) change(what string, call func() (cloud.Job, error), reached func(emulator.Cluster) bool) error {
	for range maxTries {
		var job cloud.Job
		err := o.persist(what, func() error {
			var err error
			job, err = call()
			if unknown(err) { // change sends it again
				o.judge.judge(err)
				return errLost
			}
			return err
		}, o.busy()...)
		if err != nil {
			return err
		}
		if _, err := o.follow(job.ID); err != nil {
			return err
		}
		if c, there := o.record(); there && reached(c) {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", what, errStuck)
}

// busy returns the reason that an operation in progress explains.
func (o *operator) busy() []string {
	return []string{infrav1.PortalBusyReason}
}

func (o *operator) record() (emulator.Cluster, bool) { return o.recordOf(o.cluster) }

func (o *operator) recordOf(id string) (emulator.Cluster, bool) {
	for _, c := range o.portal.Clusters() {
		if c.ID == id {
			return c, true
		}
	}
	return emulator.Cluster{}, false
}

func (o *operator) scale(size int) error {
	return o.change(fmt.Sprintf("scale to %d", size), func() (cloud.Job, error) { return o.client.ScaleCluster(o.ctx, o.cluster, size) },
		func(c emulator.Cluster) bool { return c.Size == size && c.State == emulator.ClusterRunning })
}

func (o *operator) upgrade() error {
	to := o.versions[len(o.versions)-1]
	return o.change("upgrade", func() (cloud.Job, error) { return o.client.UpgradeCluster(o.ctx, o.cluster, to) },
		func(c emulator.Cluster) bool { return c.VersionID == to && c.State == emulator.ClusterRunning })
}

// delete deletes the cluster, and returns when the portal does not know the cluster any more.
func (o *operator) delete() error { return o.deleteID(o.cluster) }

func (o *operator) deleteID(id string) error {
	for range maxTries {
		var job cloud.Job
		err := o.persist("delete", func() error {
			var err error
			job, err = o.client.DeleteCluster(o.ctx, id)
			_, there := o.recordOf(id)
			switch {
			case cloud.IsNotFound(err) && !there:
				return nil
			case unknown(err):
				o.judge.judge(err)
				return errLost
			}
			return err
		}, o.busy()...)
		if err != nil {
			return err
		}
		if job.ID != "" {
			if _, err := o.follow(job.ID); err != nil {
				return err
			}
		}
		if _, there := o.recordOf(id); !there {
			return nil
		}
	}
	return fmt.Errorf("delete: %w", errStuck)
}

// tidy deletes the remains of failed creations, as conditions ask a person to do.
func (o *operator) tidy() error {
	for _, c := range o.portal.Clusters() {
		o.logf("a person finds %s, which is %s", c.Name, c.State)
		if err := o.deleteID(c.ID); err != nil {
			return err
		}
	}
	return nil
}
