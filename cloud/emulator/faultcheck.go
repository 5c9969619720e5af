// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

func (f *Fault) validate() error {
	_, badPath := path.Match(f.pattern(), "/")
	least := min(time.Duration(min(f.Nth, f.Count, f.OthersPerMinute, f.JobNodes)), f.For, f.Delay, f.DelayUpTo, f.RetryAfter, f.JobDelay, f.Drain)
	switch {
	case badPath != nil:
		return fmt.Errorf("path %q is not a pattern", f.Path)
	case least < 0:
		return errors.New("numbers and delays cannot be negative")
	case f.Probability < 0 || f.Probability > 1:
		return errors.New("a probability is between 0 and 1")
	case f.DelayUpTo != 0 && f.DelayUpTo < f.Delay:
		return errors.New("delayUpTo cannot be less than delay")
	case f.JobNodes > 0 && f.Job != JobFailsHalfway:
		return fmt.Errorf("jobNodes goes with job %q alone", JobFailsHalfway)
	case !f.affectsCalls() && f.OthersPerMinute == 0:
		return errors.New("it has no effect")
	}
	return errors.Join(
		f.validateParts(), known("body", f.Body, bodyFaults), known("job", f.Job, jobFaults),
		known("scale", f.Scale, scaleDirections), known("state", f.State, clusterStates),
		known("upgradeStyle", f.UpgradeStyle, upgradeStyles))
}

// validateParts refuses parts that have an effect only together with others, without them.
func (f *Fault) validateParts() error {
	refuses := f.Status != 0 && f.Status != http.StatusOK || f.Code != ""
	fails := slices.Contains([]JobFault{JobFails, JobFailsHalfway, JobFailsLate}, f.Job)
	switch {
	case f.Status == http.StatusOK && (f.Body == "" || f.Code != ""):
		return errors.New("status 200 goes with a body, and without a code")
	case !allowedStatus(f.Status):
		return fmt.Errorf("status %d is not one of a failure", f.Status)
	case !refuses && (f.Message != "" || f.Field != "" || f.RetryAfter != 0):
		return errors.New("message, field and retryAfter go with a status or a code")
	case !fails && (f.JobCode != "" || f.JobMessage != ""):
		return errors.New("jobCode and jobMessage go with a job that fails")
	}
	return nil
}

// allowedStatus reports whether a fault may have the status. 0 is none.
func allowedStatus(status int) bool {
	return status == 0 || status == http.StatusOK || status >= 300 && status <= 599
}

// known refuses a value that is neither empty nor in the list.
func known[T ~string](name string, value T, list []T) error {
	if value == "" || slices.Contains(list, value) {
		return nil
	}
	return fmt.Errorf("%s %q is not one of %q", name, value, list)
}

var (
	bodyFaults      = []BodyFault{BodyTruncated, BodyInterrupted, BodyHTML, BodyEmpty, BodyNull, BodySparse}
	jobFaults       = []JobFault{JobStuck, JobStuckLate, JobFails, JobFailsHalfway, JobFailsLate, JobForgotten, JobWithoutID}
	scaleDirections = []ScaleDirection{ScaleUp, ScaleDown}
	jobKinds        = []JobKind{
		JobCreateCluster, JobScaleCluster, JobUpgradeCluster, JobDeleteCluster, JobCreateVPC, JobCreateNetwork, JobDeleteVolume,
	}
)

// affectsCalls reports whether a fault does anything to calls.
func (f *Fault) affectsCalls() bool {
	return cmp.Or(f.Delay, f.DelayUpTo, f.JobDelay, f.Drain, f.ClockSkew) != 0 || f.Status != 0 || f.Code != "" || f.Cut || f.Body != "" ||
		f.Job != "" || f.LeaveNodes || f.LeaveCordoned || f.Alert || f.UpgradeStyle != "" || f.RevokeToken
}

// checkReach refuses a fault that no call can meet: the test or the person that armed it would take what follows for the effect. Callers
// hold mu.
func (p *Portal) checkReach(f *Fault) error {
	if f.Account != "" && !p.hasAccount(f.Account) {
		return fmt.Errorf("no user has account %q", f.Account)
	}
	endpoints := p.endpointsOf(f)
	if len(endpoints) == 0 {
		return fmt.Errorf("no endpoint has method %q and path %q. A path is one of the specification's, without the base path", f.Method, f.Path)
	}
	for _, part := range []struct {
		set  bool
		jobs []JobKind // one of which the endpoint starts
		says string
	}{
		{f.Scale != "" || f.LeaveNodes, []JobKind{JobScaleCluster}, "scale and leaveNodes go with the path of a scale"},
		{f.UpgradeStyle != "", []JobKind{JobUpgradeCluster}, "upgradeStyle goes with the path of an upgrade"},
		{
			f.Alert || f.LeaveCordoned || f.Drain != 0, []JobKind{JobScaleCluster, JobUpgradeCluster},
			"drain, alert and leaveCordoned go with the path of a scale or an upgrade",
		},
		{f.Job != "" || f.JobDelay != 0, jobKinds, "job and jobDelay go with a path that starts a job"},
	} {
		if part.set && !slices.ContainsFunc(endpoints, func(r route) bool { return slices.Contains(part.jobs, r.job) }) {
			return errors.New(part.says)
		}
	}
	if f.State != "" && !slices.ContainsFunc(endpoints, func(r route) bool { return strings.Contains(r.pattern, "{cluster_id}") }) {
		return errors.New("state goes with the path of a cluster")
	}
	return nil
}

// endpointsOf returns the endpoints that the fault's method and path select. The lookup of clusters counts even if the portal does not have
// it, because clients try it.
func (p *Portal) endpointsOf(f *Fault) []route {
	lookup, _ := p.lookupRoute()
	return slices.DeleteFunc(append(slices.Clone(p.routes), lookup), func(r route) bool {
		return f.Method != "" && f.Method != r.method || f.Path != "" && !f.covers(r.pattern)
	})
}

// covers reports whether a path of the endpoint can match the fault's path.
func (f *Fault) covers(pattern string) bool {
	have, want := strings.Split(f.pattern(), "/"), strings.Split(pattern, "/")
	if len(have) != len(want) {
		return false
	}
	for i := range want {
		match, _ := path.Match(have[i], want[i]) // validated
		if !match && !strings.HasPrefix(want[i], "{") || have[i] == "" && want[i] != "" {
			return false
		}
	}
	return true
}

// hasAccount reports whether a user belongs to the account. Callers hold mu.
func (p *Portal) hasAccount(account string) bool {
	for _, u := range p.users {
		if u.Account == account {
			return true
		}
	}
	return false
}
