// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	name     = "prod"
	identity = "portal-identity"
)

// story is one Cluster in its own namespace, under its own portal account.
type story struct {
	*suite.Fixture
	suite.Objects
	number int // of the account
	secret *corev1.Secret

	begin int    // length of the portal's request log when the event happens
	id    string // of the portal cluster
}

// newStory prepares a story with two workers. Nothing is applied yet.
func newStory(t *testing.T) *story {
	t.Helper()
	i := accounts.Next(t)
	s := &story{number: i, Fixture: suite.NewFixture(t, box, suite.User(provider, i))}
	s.compose()
	t.Cleanup(s.demolish)
	t.Cleanup(s.Explain)
	return s
}

// scaleRequest is a request as requests returns it.
const scaleRequest = "POST /kubernetes-clusters/{cluster_id}/scale → 202"

func (s *story) compose() {
	s.Objects = suite.NewObjects(metav1.ObjectMeta{Namespace: s.Namespace, Name: name}, identity)
	s.secret = s.IdentitySecret(identity)
}

// objects returns the objects of the story in the order of a manifest.
func (s *story) objects() []client.Object {
	return []client.Object{s.secret, s.Cluster, s.PortalCluster, s.ControlPlane, s.Bootstrap, s.Template, s.Deployment}
}

// settle applies the story and waits until its workers are ready.
func (s *story) settle() {
	s.Helper()
	for _, o := range s.objects() {
		s.Create(o)
	}
	s.settled(box)
	s.id = s.PortalClusters()[0].ID
	s.Get(s.ControlPlane)
}

// settled waits until the Cluster is available and both Machines are ready.
func (s *story) settled(at *sandbox.Sandbox) {
	s.Helper()
	f := *s.Fixture
	f.Box = at
	f.AwaitReady(s.Cluster, 2)
}

func (s *story) read(o client.Object) client.Object {
	s.Helper()
	s.Get(o)
	return o
}

func (s *story) delete(o client.Object) {
	s.Helper()
	s.Expect(box.Client.Delete(s.Context(), o)).To(Succeed())
}

// requests returns the requests since the event with which the provider's user changed something at the portal.
func (s *story) requests() []string {
	all := []string{}
	for _, e := range box.Portal.RequestLog()[s.begin:] {
		changes := e.Method == "POST" || e.Method == "DELETE"
		if changes && e.User == s.User.ID && (strings.HasPrefix(e.Route, "/kubernetes-clusters") || strings.HasPrefix(e.Route, "/networks")) {
			all = append(all, fmt.Sprintf("%s %s → %d", e.Method, e.Route, e.Status))
		}
	}
	return all
}

// person returns a client of the portal for a person who uses the same account.
func (s *story) person() *cloud.Client {
	s.Helper()
	user := suite.User(person, s.number)
	c, err := cloud.New(cloud.Config{
		BaseURL: box.Portal.URL(), CABundle: box.Portal.CAPEM(), Wait: true,
		Email: user.Email, Password: user.Password,
	})
	s.Expect(err).NotTo(HaveOccurred())
	return c
}
