// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// shape is one of the choices that the specification leaves to a portal.
type shape struct {
	name string
	set  func(*emulator.Shapes)
}

var shapes = []shape{
	{"otp token in accessToken", func(s *emulator.Shapes) { s.OTPTokenField = "accessToken" }},
	{"otp token in an object", func(s *emulator.Shapes) { s.OTPTokenIn = "session" }},
	{"no answer to send-otp", func(s *emulator.Shapes) { s.SendOTPStatus = http.StatusNoContent }},
	{"INVALID_TOKEN for a wrong password", func(s *emulator.Shapes) { s.CredentialsCode = emulator.CodeInvalidToken }},
	{"created id beside another", func(s *emulator.Shapes) { s.CreatedID = emulator.IDBeside }},
	{"volumes deleted by job", func(s *emulator.Shapes) { s.VolumeStatus = http.StatusAccepted }},
	{"lookup answered by 401", func(s *emulator.Shapes) { s.LookupStatus = http.StatusUnauthorized }},
	{"lookup answered by a page", func(s *emulator.Shapes) { s.LookupStatus, s.LookupPage = http.StatusOK, true }},
	{"extra fields", func(s *emulator.Shapes) { s.ExtraFields = true }},
	{"reset of an hour", func(s *emulator.Shapes) { s.ResetSeconds = 3600 }},
	{"what is left of a minute", func(s *emulator.Shapes) { s.WindowRemaining = true }},
	{"networks by job", func(s *emulator.Shapes) { s.NetworkStatus = http.StatusAccepted }},
	{"job error as string", func(s *emulator.Shapes) { s.JobError = emulator.JobErrorString }},
	{"instances under another key", func(s *emulator.Shapes) { s.InstancesKey = "items" }},
	{"bare lists", func(s *emulator.Shapes) { s.BareLists = true }},
	{"all codes with 400", everyCode(http.StatusBadRequest)},
	{"numbers as text", func(s *emulator.Shapes) { s.NumbersAsText = true }},
	{"versions without v", func(s *emulator.Shapes) { s.BareVersions = true }},
	{"versions with build", func(s *emulator.Shapes) { s.VersionBuild = "portal.1" }},
	{"tokens without exp", func(s *emulator.Shapes) { s.TokensWithoutExp = true }},
	{"Retry-After as date", func(s *emulator.Shapes) { s.RetryAfterDate = true }},
	{"limit headers with 429 only", func(s *emulator.Shapes) { s.QuietLimits = true }},
}

// everyCode sends every code of the specification with the same status. It is not used with 429, which means the rate limit with any code.
func everyCode(status int) func(*emulator.Shapes) {
	return func(s *emulator.Shapes) {
		s.CodeStatus = map[string]int{}
		for _, code := range []string{
			emulator.CodeInvalidParameter, emulator.CodeInvalidToken, emulator.CodeMFARequired, emulator.CodeResourceNotFound,
			emulator.CodeResourceBusy, emulator.CodeQuotaExceeded, emulator.CodeInsufficientCapacity, emulator.CodeRateLimited,
			emulator.CodeOperationNotAllowed,
		} {
			s.CodeStatus[code] = status
		}
	}
}

// TestLifeInEachShape checks a life with each shape alone, with each pair, and with all of them. cloud: TestSecondFactor, TestCreatedID and
// TestLookup have the further values of shapes that have more than two.
func TestLifeInEachShape(t *testing.T) {
	for i, one := range shapes {
		live(t, one.name, one.set)
		for _, two := range shapes[i+1:] {
			var o emulator.Options
			one.set(&o.Shapes)
			two.set(&o.Shapes)
			liveAs(t, one.name+" and "+two.name, o, careful)
		}
	}
	live(t, "the defaults", func(*emulator.Shapes) {})
	live(t, "all shapes", func(s *emulator.Shapes) {
		for _, one := range shapes {
			one.set(s)
		}
	})
}

// live runs a life as a user without MFA and as one with MFA.
func live(t *testing.T, name string, set func(*emulator.Shapes)) {
	t.Helper()
	var o emulator.Options
	set(&o.Shapes)
	liveAs(t, name, o, func(*cloud.Config) {})
	liveAs(t, name+", with MFA", o, careful)
}

func liveAs(t *testing.T, name string, o emulator.Options, user func(*cloud.Config)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := newPortal(t, o)
			(&life{scene: &scene{T: t, portal: p, client: newClient(t, p, user)}}).whole()
		})
	})
}

// life is the life of one cluster, from the login to its deletion.
type life struct{ *scene }

func (l *life) whole() {
	l.login()
	l.network()
	l.create()
	l.look()
	l.change()
	l.refused()
	l.interrupted()
	l.end()
	for _, e := range l.portal.Violations() {
		if e.Method != "GET" || !strings.HasSuffix(e.Path, "/kubernetes-clusters") { // tried because this portal may have it
			l.Errorf("the client broke the specification: %s", e)
		}
	}
}

// must ends the life if err is not nil.
func must[T any](l *life, value T, err error) T {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
	return value
}

// wants checks the class of an error.
func (l *life) wants(want string, err error) {
	l.Helper()
	if got := class(err); len(got) != 1 || got[0] != want {
		l.Errorf("%v, want %s: %v", got, want, err)
	}
}

// done follows a job until it succeeds.
func (l *life) done(job cloud.Job, err error) cloud.Job {
	l.Helper()
	ended := l.ended(job, err)
	if ended.Failed() {
		l.Fatalf("job %s: %v", job.ID, ended.Error)
	}
	return ended
}

func (l *life) ended(job cloud.Job, err error) cloud.Job {
	l.Helper()
	job = must(l, job, err)
	for start := time.Now(); !job.Done(); time.Sleep(5 * time.Second) {
		if time.Since(start) > 2*time.Hour {
			l.Fatalf("job %s is %s", job.ID, job.Status)
		}
		next, err := l.client.Job(l.Context(), job.ID)
		job = must(l, next, err)
	}
	return job
}

func (l *life) login() {
	id, err := l.client.UserID(l.Context())
	if must(l, id, err) == "" {
		l.Error("the user has no id")
	}
	versions, err := l.client.KubernetesVersions(l.Context())
	offered := l.portal.Versions()
	for i, v := range must(l, versions, err) {
		core, _, _ := strings.Cut("v"+strings.TrimPrefix(v.SemanticVersion, "v"), "+")
		if v.ID != offered[i].ID || core != offered[i].SemanticVersion || v.State == "" {
			l.Errorf("version %+v, want %+v", v, offered[i])
		}
	}
	l.version = offered[0].ID
}

// network creates a VPC, finds it by its name, and creates a network.
func (l *life) network() {
	job := l.done(l.client.CreateVPC(l.Context(), cloud.CreateVPCRequest{Name: "mine"}))
	id, _ := job.CreatedID(cloud.KindVPC, "mine")
	found, err := l.client.VPCs(l.Context(), "mine")
	if must(l, found, err); len(found) != 1 || found[0].ID != id || id == "" {
		l.Errorf("created VPC %s, found %+v", id, found)
	}
	created, err := l.client.CreateNetwork(l.Context(), cloud.CreateNetworkRequest{CIDR: "10.1.0.0/24"})
	if must(l, created, err).Job.ID != "" {
		created.ID, _ = l.done(created.Job, nil).CreatedID(cloud.KindNetwork, "")
	}
	if networks := l.portal.Networks(); len(networks) != 1 || networks[0].ID != created.ID {
		l.Errorf("created network %s, the portal has %+v", created.ID, networks)
	}
}

func (l *life) create() {
	r := l.request()
	r.NetworkID = l.portal.Networks()[0].ID
	r.VPCID = l.portal.VPCs()[len(l.portal.VPCs())-1].ID
	l.cluster, _ = l.done(l.client.CreateCluster(l.Context(), r)).CreatedID(cloud.KindCluster, r.Name)
	if got := l.portal.Clusters(); len(got) != 1 || got[0].ID != l.cluster || got[0].NetworkID != r.NetworkID {
		l.Fatalf("created cluster %s, the portal has %+v", l.cluster, got)
	}
}

func (l *life) look() {
	kubeconfig, err := l.client.Kubeconfig(l.Context(), l.cluster)
	if !strings.Contains(string(must(l, kubeconfig, err)), "current-context") {
		l.Error("the answer is not a kubeconfig")
	}
	all, err := l.client.Instances(l.Context())
	if must(l, all, err); len(all) != 2 {
		l.Errorf("%d instances, want 2", len(all))
	}
	one, err := l.client.Instance(l.Context(), all[0].ID)
	if must(l, one, err).ID != all[0].ID {
		l.Errorf("instance %s, want %s", one.ID, all[0].ID)
	}
	_, err = l.client.FindClusters(l.Context(), "demo")
	l.wants("unsupported", err)
}

// change scales and upgrades the cluster, and checks that it is busy until the job ends.
func (l *life) change() {
	job, err := l.client.ScaleCluster(l.Context(), l.cluster, 4)
	_, busy := l.client.UpgradeCluster(l.Context(), l.cluster, l.version)
	l.wants("busy", busy)
	l.done(job, err)
	l.size(4)
	l.done(l.client.ScaleCluster(l.Context(), l.cluster, 2))
	l.size(2)
	newest := l.portal.Versions()[len(l.portal.Versions())-1]
	l.done(l.client.UpgradeCluster(l.Context(), l.cluster, newest.ID))
	for _, node := range l.portal.Clusters()[0].Nodes {
		if node.Version != newest.SemanticVersion && !node.Gone {
			l.Errorf("node %s has version %s", node.Name, node.Version)
		}
	}
}

func (l *life) size(want int) {
	l.Helper()
	if got := l.portal.Clusters()[0].Size; got != want {
		l.Errorf("%d workers, want %d", got, want)
	}
}

// refused checks calls that must not succeed.
func (l *life) refused() {
	_, err := l.client.ScaleCluster(l.Context(), l.cluster, 51)
	l.wants("quota", err)
	_, err = l.client.UpgradeCluster(l.Context(), l.cluster, "none")
	l.wants("invalid", err)
	_, err = l.client.Kubeconfig(l.Context(), "none")
	l.wants("not-found", err)
	_, err = l.client.Job(l.Context(), "none")
	l.wants("not-found", err)
	volume := l.portal.AddVolume(emulator.Volume{ClusterID: l.cluster})
	_, err = l.client.DeleteVolume(l.Context(), volume)
	l.wants("not-allowed", err)
}

// interrupted checks a failed job, an expired token and a used-up rate limit.
func (l *life) interrupted() {
	l.fault(emulator.Fault{Job: emulator.JobFails, JobCode: emulator.CodeInsufficientCapacity, Path: "/kubernetes-clusters/*/scale", Count: 1})
	job := l.ended(l.client.ScaleCluster(l.Context(), l.cluster, 3))
	if !job.Failed() || !cloud.IsCapacity(job.Error) {
		l.Errorf("the job is %s: %v", job.Status, job.Error)
	}
	l.size(2)

	time.Sleep(time.Minute) // until the next one-time code
	l.fault(emulator.Fault{RevokeToken: true, Count: 1, Path: "/vpcs"})
	vpcs, err := l.client.VPCs(l.Context(), "")
	must(l, vpcs, err)

	l.fault(emulator.Fault{Code: emulator.CodeRateLimited, RetryAfter: 30 * time.Second, Count: 1, Path: "/vpcs"})
	start := time.Now()
	_, err = l.client.VPCs(l.Context(), "")
	l.wants("rate-limited", err)
	for cloud.IsRateLimited(err) {
		at, ok := cloud.RetryAt(err)
		if !ok || time.Since(start) > time.Minute {
			l.Fatalf("after %s: %v, RetryAt %v", time.Since(start), err, at)
		}
		time.Sleep(time.Until(at))
		_, err = l.client.VPCs(l.Context(), "")
	}
	if waited := time.Since(start); err != nil || waited < 29*time.Second {
		l.Errorf("after %s: %v", waited, err)
	}
	time.Sleep(time.Minute) // the client sends fewer requests for a while
}

func (l *life) fault(f emulator.Fault) {
	l.Helper()
	if err := l.portal.Inject(f); err != nil {
		l.Fatal(err)
	}
}

// end deletes the cluster and then its volume.
func (l *life) end() {
	l.done(l.client.DeleteCluster(l.Context(), l.cluster))
	_, err := l.client.Kubeconfig(l.Context(), l.cluster)
	l.wants("not-found", err)
	for _, volume := range l.portal.Volumes() {
		l.done(l.client.DeleteVolume(l.Context(), volume.ID))
	}
	left := fmt.Sprint(len(l.portal.Clusters()), len(l.portal.Instances()), len(l.portal.Volumes()))
	if left != "0 0 0" {
		l.Errorf("clusters, instances and volumes left: %s", left)
	}
}
