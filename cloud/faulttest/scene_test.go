// SPDX-License-Identifier: Apache-2.0

package faulttest

import (
	"strings"
	"testing"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// Credentials of the portal's users.
const (
	password = "Correct-Horse-7"
	seed     = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
	email    = "robot@portal.example"
	mfaEmail = "careful@portal.example"
)

// scene is a portal with resources to read and to change, in virtual time.
type scene struct {
	*testing.T
	portal *emulator.Portal
	client *cloud.Client // has not sent a request yet
	tap    *tap          // records the secrets of all requests and answers

	cluster, job, instance, volume, version, reset string
}

// quick is for operations that take no time.
var quick = emulator.Durations{Pending: -1, Create: -1, Scale: -1, Upgrade: -1, Delete: -1, VPC: -1, Network: -1}

func newPortal(t *testing.T, options emulator.Options) *emulator.Portal {
	t.Helper()
	options.Users = []emulator.User{
		{Email: email, Password: password},
		{Email: mfaEmail, Password: password, TOTPSeed: seed},
	}
	p, err := emulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func newClient(t *testing.T, p *emulator.Portal, changes ...func(*cloud.Config)) *cloud.Client {
	t.Helper()
	config := cloud.Config{BaseURL: p.URL(), Email: email, Password: password, Transport: p.Transport()}
	for _, change := range changes {
		change(&config)
	}
	c, err := cloud.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// careful configures the user with MFA.
func careful(c *cloud.Config) { c.Email, c.TOTPSeed = mfaEmail, seed }

// newScene creates the resources that a method with that path reads or changes. Its client has not sent a request yet.
func newScene(t *testing.T, path string, options emulator.Options, changes ...func(*cloud.Config)) *scene {
	t.Helper()
	p := newPortal(t, options)
	s := &scene{T: t, portal: p, tap: newTap(p.Transport()), version: p.Versions()[0].ID}
	s.client = newClient(t, p, append(changes, func(c *cloud.Config) { c.Transport = s.tap })...)
	other := newClient(t, p)
	if _, err := other.VPCs(t.Context(), ""); err != nil { // the account is already in use
		t.Fatal(err)
	}
	s.volume = p.AddVolume(emulator.Volume{})
	switch {
	case strings.Contains(path, "{RESET_PASSWORD_TOKEN}"):
		if err := other.RequestPasswordReset(t.Context(), email); err != nil {
			t.Fatal(err)
		}
		s.reset = p.Mailbox(email)[0].ResetToken
	case strings.Contains(path, "{cluster_id}"), strings.Contains(path, "{job_id}"), strings.Contains(path, "{instance_id}"):
		s.furnish(other)
	}
	return s
}

// furnish creates a cluster.
func (s *scene) furnish(c *cloud.Client) {
	s.Helper()
	job, err := c.CreateCluster(s.Context(), s.request())
	if err != nil {
		s.Fatal(err)
	}
	s.job = job.ID
	for !job.Done() {
		time.Sleep(time.Second)
		if job, err = c.Job(s.Context(), s.job); err != nil || job.Failed() {
			s.Fatalf("%+v, %v", job, err)
		}
	}
	s.cluster, _ = job.CreatedID("", "")
	s.instance = s.portal.Instances()[0].ID
}

// request returns a create request for a small cluster.
func (s *scene) request() cloud.CreateClusterRequest {
	return cloud.CreateClusterRequest{
		Name: "demo", Description: "of the matrix", ZoneID: "zone-1", KubernetesVersionID: s.version, ServiceOfferingID: "offering-1",
		Size: 1, ControlNodes: 1, VPCID: s.portal.VPCs()[0].ID, SSHKeyPair: "key",
	}
}
