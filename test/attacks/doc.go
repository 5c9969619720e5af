// SPDX-License-Identifier: Apache-2.0

// Package attacks tries what a tenant could do to harm the manager and other tenants.
//
// The attacker has all rights in one namespace, by a Role with verbs ["*"] on resources ["*"] of all groups, and no rights elsewhere. The
// attacker knows the password of a portal user in the account that other tenants use, and runs portals, API servers and proxies. What a stolen
// token of the manager could do, and every write that a policy refuses, is in test/contract.
//
// The API server authorizes with RBAC. The manager and Cluster API's core manager act as their ServiceAccounts, with the roles that their
// releases grant them. The policies are those of config/default. A row passes if the attack has done no harm when the manager reports on what
// the tenant wrote, or, if the manager reports nothing, within a time in which the attack succeeds without the control. Memory and time under
// hostile API servers are measured in test/hostile, and test/secrets searches the logs at high verbosity.
//
//	go test ./test/attacks                        # all rows (row_test.go)
//	go test ./test/attacks -run '//clusterID'     # some of them
//	go test ./test/attacks -without-controls -v   # remove what can be removed: those rows pass if they do harm
//
// To remove a policy, the tests delete its binding. To remove a flag, they start the manager with another value. All other controls are
// code. The rows of these controls are skipped without controls.
package attacks
