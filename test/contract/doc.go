// SPDX-License-Identifier: Apache-2.0

// Package contract checks what an API server alone refuses, accepts and keeps, with the CRDs, policies and roles that users install: the
// rules of the CRDs (input_test.go, place_test.go), the policies (adoption_test.go, kubeconfig_test.go, secrets_test.go, templates_test.go),
// the rights of the manager in one namespace (rights_test.go), and the objects of earlier releases (samples_test.go).
//
// All tests share one API server. No controllers and no webhooks run, so each test writes objects and looks at the answers, and never waits.
// Package attacks tries with all controllers what a user could gain if a policy were missing. Package release has the files that users
// download. It applies them where clusterctl has installed them, and core's webhooks judge them too.
package contract
