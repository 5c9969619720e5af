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
//	go test ./test/attacks                        # all rows, but some only at night, because a faster test makes the same promise
//	go test ./test/attacks -run '//clusterID'     # some of them
//	go test ./test/attacks -without-controls -v   # remove what can be removed: those rows pass if they do harm
//
// To remove a policy, the tests delete its binding. To remove a flag, they start the manager with another value. All other controls are
// code. The rows of these controls are skipped without controls.
//
// The rows, and the control of each (TestTable compares this table with them):
//
//	a kubeconfig made beforehand names a file of the manager's                  | a kubeconfig is checked when it is used (controllers/kubeconfig)
//	the same, marked as the tenant's own                                        | a kubeconfig is checked when it is used (controllers/kubeconfig)
//	the kubeconfig of a running cluster is replaced by one that names a file    | a kubeconfig is checked when it is used (controllers/kubeconfig)
//	a kubeconfig names a proxy                                                  | a kubeconfig is checked when it is used (controllers/kubeconfig)
//	core reads a file for a kubeconfig that the tenant wrote                    | policy kubeconfig Secrets
//	an API server redirects the manager to another host                         | redirects of API servers are not followed
//	the portal's kubeconfig leads to the manager's own host                     | servers on unspecified, link-local and loopback addresses are refused
//	a kubeconfig of the tenant's own leads to the manager's own host            | servers on unspecified, link-local and loopback addresses are refused
//	clusterID names another's cluster, to delete it                             | policy adoption
//	portal-operation names another's job                                        | policy adoption
//	annotations of a Cluster's topology reach the control plane by core's hands | policy adoption
//	annotations of a template reach the control plane by core's hands           | policy adoption
//	portal-network names another's network                                      | policy adoption
//	the name of another's cluster, after a lost answer                          | only clusters that the object's own requests made are found by name
//	an identity that allows other namespaces only                               | allowedNamespaces of a PortalClusterIdentity
//	a thousand identities evict the client of another tenant                    | portal clients are bounded per namespace
//	portals that never answer hold all workers of the manager                   | one namespace holds a share of the workers
//	an identity names loopback by another name                                  | --portal-host: loopback is refused unless it is listed
//	conditions reveal what listens on hosts that the tenant cannot reach        | conditions say the same of every portal that cannot be reached
//	a portal redirects the login to another host                                | redirects of portals are not followed
//	a portal repeats the password in its refusal                                | errors carry no secret that the request held
//	texts of tenants and portals forge lines of the log                         | the log quotes what it did not write itself
//	a portal's text breaks the lines of a condition                             | errors of portals are one line
//	metrics are read without the right                                          | flag --insecure-diagnostics=false
//	the verbosity of the log is raised without the right                        | diagnostics ask who uses them
//	events, conditions and metrics are searched for secrets                     | secrets never travel
package attacks
