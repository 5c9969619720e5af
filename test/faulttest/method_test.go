// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// method is a method of the client, with arguments for which it succeeds without a fault.
type method struct {
	name   string
	group  string // column of the tables
	verb   string
	path   string // of its endpoint
	call   func(context.Context, *scene) error
	absent string // class of every answer that the client does not understand; "" for the table's
	ahead  string // class if the portal's clock is ahead; "" for the table's
	waits  bool   // the client waits for the rate limit, as a command-line tool does, and repeats what the limit refused
}

// methods are all methods that call the portal.
var methods = []method{
	{name: "VPCs", group: "read", verb: "GET", path: "/vpcs",
		call: reads(func(ctx context.Context, s *scene) ([]cloud.VPC, error) { return s.client.VPCs(ctx, "default") })},
	{name: "KubernetesVersions", group: "read", verb: "GET", path: "/kubernetes-versions",
		call: reads(func(ctx context.Context, s *scene) ([]cloud.KubernetesVersion, error) {
			return s.client.KubernetesVersions(ctx)
		})},
	{name: "FindClusters", group: "read", verb: "GET", path: "/kubernetes-clusters", absent: "unsupported",
		call: reads(func(ctx context.Context, s *scene) ([]cloud.Cluster, error) {
			return s.client.FindClusters(ctx, "demo")
		})},
	{name: "Kubeconfig", group: "read", verb: "GET", path: "/kubernetes-clusters/{cluster_id}/config",
		call: reads(func(ctx context.Context, s *scene) ([]byte, error) { return s.client.Kubeconfig(ctx, s.cluster) })},
	{name: "Job", group: "read", verb: "GET", path: "/jobs/{job_id}",
		call: reads(func(ctx context.Context, s *scene) (cloud.Job, error) { return s.client.Job(ctx, s.job) })},
	{name: "Instances", group: "read", verb: "GET", path: "/instances",
		call: reads(func(ctx context.Context, s *scene) ([]cloud.Instance, error) { return s.client.Instances(ctx) })},
	{name: "Instance", group: "read", verb: "GET", path: "/instances/{instance_id}",
		call: reads(func(ctx context.Context, s *scene) (cloud.Instance, error) { return s.client.Instance(ctx, s.instance) })},

	{name: "CreateVPC", group: "change", verb: "POST", path: "/vpcs", call: started(func(ctx context.Context, s *scene) (cloud.Job, error) {
		return s.client.CreateVPC(ctx, cloud.CreateVPCRequest{Name: "mine"})
	})},
	{name: "CreateNetwork", group: "change", verb: "POST", path: "/networks", call: started(func(ctx context.Context, s *scene) (cloud.Job, error) {
		created, err := s.client.CreateNetwork(ctx, cloud.CreateNetworkRequest{CIDR: "10.1.0.0/24"})
		return created.Job, err
	})},
	{name: "CreateCluster", group: "change", verb: "POST", path: "/kubernetes-clusters", call: started(createCluster)},
	{name: "CreateCluster: waiting", group: "change", verb: "POST", path: "/kubernetes-clusters", waits: true, call: started(createCluster)},
	{name: "ScaleCluster", group: "change", verb: "POST", path: "/kubernetes-clusters/{cluster_id}/scale",
		call: started(func(ctx context.Context, s *scene) (cloud.Job, error) {
			return s.client.ScaleCluster(ctx, s.cluster, 2)
		})},
	{name: "UpgradeCluster", group: "change", verb: "POST", path: "/kubernetes-clusters/{cluster_id}/upgrade",
		call: started(func(ctx context.Context, s *scene) (cloud.Job, error) {
			return s.client.UpgradeCluster(ctx, s.cluster, s.portal.Versions()[1].ID)
		})},
	{name: "DeleteCluster", group: "change", verb: "DELETE", path: "/kubernetes-clusters/{cluster_id}",
		call: started(func(ctx context.Context, s *scene) (cloud.Job, error) { return s.client.DeleteCluster(ctx, s.cluster) })},

	{name: "DeleteVolume", group: "quiet", verb: "DELETE", path: "/volumes/{volume_id}",
		call: started(func(ctx context.Context, s *scene) (cloud.Job, error) { return s.client.DeleteVolume(ctx, s.volume) })},
	{name: "DisableMFA", group: "quiet", verb: "POST", path: "/admin/mfa/disable/{idp}",
		call: func(ctx context.Context, s *scene) error { return s.client.DisableMFA(ctx, emulator.DefaultIDP) }},
	{name: "RequestPasswordReset", group: "open", verb: "POST", path: "/reset-password",
		call: func(ctx context.Context, s *scene) error { return s.client.RequestPasswordReset(ctx, email) }},
	{name: "ResetPassword", group: "open", verb: "POST", path: "/reset-password/{RESET_PASSWORD_TOKEN}", ahead: "not-found",
		call: func(ctx context.Context, s *scene) error { return s.client.ResetPassword(ctx, s.reset, "another") }},

	{name: "UserID: login", group: "login", verb: "POST", path: "/login", call: reads(userID)},
	{name: "Login", group: "login", verb: "POST", path: "/login",
		call: reads(func(ctx context.Context, s *scene) (cloud.Login, error) { return s.client.Login(ctx) })},
	{name: "UserID: send-otp", group: "send", verb: "POST", path: "/mfa/send-otp", call: reads(userID)},
	{name: "UserID: verify-otp", group: "verify", verb: "POST", path: "/mfa/verify-otp", call: reads(userID)},
}

// reads adapts a method that returns something.
func reads[T any](read func(context.Context, *scene) (T, error)) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		_, err := read(ctx, s)
		return err
	}
}

// started adapts a method that starts a job. The scene records the job.
func started(start func(context.Context, *scene) (cloud.Job, error)) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		job, err := start(ctx, s)
		s.job = job.ID
		return err
	}
}

func createCluster(ctx context.Context, s *scene) (cloud.Job, error) {
	return s.client.CreateCluster(ctx, s.request())
}

func userID(ctx context.Context, s *scene) (string, error) { return s.client.UserID(ctx) }

// entering reports whether the method is part of a login.
func (m method) entering() bool {
	return m.group == "login" || m.group == "send" || m.group == "verify"
}

// user configures a user with MFA if the method is a part of MFA.
func (m method) user(config *cloud.Config) {
	config.Wait = m.waits
	if m.group == "send" || m.group == "verify" {
		careful(config)
	}
}

// class returns the classes of an error. Every error must have exactly one.
func class(err error) []string {
	if err == nil {
		return []string{"ok"}
	}
	var found []string
	for _, c := range classes {
		if c.is(err) {
			found = append(found, c.name)
		}
	}
	return found
}

var classes = []struct {
	name string
	is   func(error) bool
}{
	{"busy", cloud.IsBusy},
	{"not-allowed", cloud.IsNotAllowed},
	{"quota", cloud.IsQuota},
	{"capacity", cloud.IsCapacity},
	{"invalid", cloud.IsInvalid},
	{"not-found", cloud.IsNotFound},
	{"mfa-required", cloud.IsMFARequired},
	{"unauthorized", cloud.IsUnauthorized},
	{"forbidden", cloud.IsForbidden},
	{"rate-limited", cloud.IsRateLimited},
	{"unavailable", cloud.IsUnavailable},
	{"unsupported", cloud.IsUnsupported},
	{"not-portal", cloud.IsNotPortal},
	{"unknown", cloud.IsUnknownOutcome},
}

// TestNothingIsLeftOut checks that every method of the client has a row in the matrix, every endpoint a method, and every shape a life.
func TestNothingIsLeftOut(t *testing.T) {
	listed, called := map[string]bool{}, map[string]bool{}
	for _, m := range methods {
		name, _, _ := strings.Cut(m.name, ":")
		listed[name] = true
		called[m.verb+" "+m.path] = true
	}
	client := reflect.TypeFor[*cloud.Client]()
	for i := range client.NumMethod() {
		m := client.Method(i)
		asks := m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]()
		if asks && m.Name != "Wait" && !listed[m.Name] { // Wait asks only the rate limiter
			t.Errorf("method %s is in no row", m.Name)
		}
	}
	if len(called) != 20 {
		t.Errorf("%d endpoints are called, want the 19 of the specification and the list of clusters", len(called))
	}
	set := reflect.ValueOf(new(emulator.Shapes)).Elem()
	for _, one := range shapes {
		one.set(set.Addr().Interface().(*emulator.Shapes))
	}
	for i := range set.NumField() {
		if set.Field(i).IsZero() {
			t.Errorf("shape %s is in no life", set.Type().Field(i).Name)
		}
	}
}
