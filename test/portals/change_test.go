// SPDX-License-Identifier: Apache-2.0

package portals

import (
	"cmp"
	"errors"
	"fmt"
	"time"

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
			switch {
			case unknown(err): // change sends it again
				o.judge.judge(err)
				return errLost
			case o.inAlert() && cloud.IsNotAllowed(err): // a job of a request whose answer was lost has failed
				o.judge.judge(err, infrav1.RefusedReason)
				return cmp.Or(o.awaitRepair(what, call), errLost)
			}
			return err
		}, o.busy()...)
		if err != nil {
			return err
		}
		if _, err := o.follow(job.ID); err != nil {
			return err
		}
		if err := o.awaitRepair(what, call); err != nil {
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

// errUnrepaired means that the user deletes the cluster, although the portal's operator would repair it.
var errUnrepaired = errors.New("the cluster is in Alert")

// awaitRepair waits until the portal's operator has repaired a cluster in Alert. In the meantime the portal refuses the change, and names
// the state. The user may lose patience.
func (o *operator) awaitRepair(what string, call func() (cloud.Job, error)) error {
	for began := time.Now(); ; {
		switch {
		case !o.inAlert():
			return nil
		case o.impatient:
			return errUnrepaired
		case time.Since(began) > repair:
			o.logf("the portal's operator repairs the cluster")
			return o.portal.Repair(o.cluster)
		}
		_, err := call()
		o.logf("%s in Alert: %v", what, err)
		if err == nil {
			return fmt.Errorf("%s was accepted in Alert", what)
		}
		o.wait(o.judge.judge(err, infrav1.RefusedReason))
	}
}

// repairStuck has the portal's operator end a job that would never end.
func (o *operator) repairStuck(id string) {
	for _, j := range o.portal.Jobs() {
		if j.ID == id && !o.ended[id] && o.portal.Repair(j.ClusterID) == nil {
			o.logf("the portal's operator ends job %s", id)
			o.ended[id] = true
		}
	}
}

func (o *operator) inAlert() bool {
	c, there := o.record()
	return there && c.State == emulator.ClusterAlert
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
