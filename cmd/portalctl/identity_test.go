// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

// TestIdentity: the Secret has the keys that the provider reads.
func TestIdentity(t *testing.T) {
	at(t, mfaUser(), func(t *testing.T, d *desk) {
		ca := fileWith(t, d.portal.CAPEM())
		d = d.with(seedVariable, canarySeed, caFileVariable, ca)
		d.may = true
		for _, format := range []string{"yaml", "json", "table"} {
			var got corev1.Secret
			r := d.run("identity", "--name", "id", "--namespace", "fleet", "--account", "acme", "--requests-per-minute", "600", "-o", format).exits(exitOK)
			if err := yaml.UnmarshalStrict([]byte(r.out), &got); err != nil {
				t.Fatal(err)
			}
			want := corev1.Secret{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
				ObjectMeta: metav1.ObjectMeta{Name: "id", Namespace: "fleet"},
				Type:       corev1.SecretTypeOpaque,
				Data: map[string][]byte{
					infrav1.IdentityBaseURL: []byte(d.portal.URL()), infrav1.IdentityEmail: []byte("ops@portal.example"),
					infrav1.IdentityPassword: []byte(canaryPassword), infrav1.IdentityTOTPSeed: []byte(canarySeed),
					infrav1.IdentityCABundle: d.portal.CAPEM(),
					infrav1.IdentityAccount:  []byte("acme"), infrav1.IdentityRequestsPerMinute: []byte("600"),
				},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		}
		var held corev1.Secret
		if err := yaml.UnmarshalStrict([]byte(d.run("identity", "--creations", "held").exits(exitOK).out), &held); err != nil {
			t.Fatal(err)
		}
		if got := string(held.Data[infrav1.IdentityCreations]); got != infrav1.CreationsHeld {
			t.Errorf("creations: %q", got)
		}
		d.run("identity", "--creations", "no").exits(exitUsage).says("held or allowed")
		var got corev1.Secret
		if err := yaml.UnmarshalStrict([]byte(d.run("identity").exits(exitOK).out), &got); err != nil || len(got.Data) != 5 {
			t.Errorf("%v: %d keys, want none for what was not given", err, len(got.Data))
		}
		if n := d.calls("POST", "/login"); n != 0 {
			t.Errorf("%d logins without --check", n)
		}
	})
}

// TestIdentityCheck: a Secret that the provider could not use is not printed.
func TestIdentityCheck(t *testing.T) {
	at(t, emulator.Options{}, func(t *testing.T, d *desk) {
		if r := d.with(passwordVariable, "canary-wrong").run("identity", "--check").exits(exitCredentials); r.out != "" {
			t.Errorf("printed %s", r.out)
		}
		d.may = true
		d.run("identity", "--check").exits(exitOK).shows("kind: Secret", "namespace: default").says("The login works: ops@portal.example is user user-")
	})
	at(t, mfaUser(), func(t *testing.T, d *desk) {
		d.answers = []string{"123456"}
		if r := d.run("identity", "--check").exits(exitCredentials).says(seedVariable); r.out != "" || len(d.asked) != 0 {
			t.Errorf("printed %q, asked %q: the provider has nobody to type codes", r.out, d.asked)
		}
	})
}

// TestIdentityRefusesWhatCannotBe checks that a wrong input is refused without a request.
func TestIdentityRefusesWhatCannotBe(t *testing.T) {
	at(t, emulator.Options{}, func(_ *testing.T, d *desk) {
		d.with(urlVariable, "http://portal.example").run("identity").exits(exitUsage).says("https")
		for _, name := range []string{"My-Secret", "a_b", "a..b", "-a", "", strings.Repeat("a", 254)} {
			d.run("identity", "--name", name).exits(exitUsage).says("--name", "lower case")
		}
		for _, namespace := range []string{"Fleet", "fleet.eu", "fleet ", "", strings.Repeat("a", 64)} {
			d.run("identity", "--namespace", namespace).exits(exitUsage).says("--namespace", "lower case")
		}
		d.run("identity", "--requests-per-minute", "-1").exits(exitUsage).says("--requests-per-minute must be a number from 1")
	})
}
