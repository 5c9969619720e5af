// SPDX-License-Identifier: Apache-2.0

// Package access keeps the way to a workload cluster: the kubeconfig Secret, the endpoint in spec, and the connection (package workload).
//
// A kubeconfig is fetched from the portal when there is none, when it does not work (connection.go), well before it expires
// (credentials.go) and after each upgrade. A user may replace it by one of their own (usermanaged.go). Each pass gets a Way, which says how
// far it leads.
//
// The connection does not depend on the Secret. If the management cluster refuses to store it, or it is gone or changed, the connection goes on
// with the kubeconfig that was fetched last, whose digest is in the record. The condition KubeconfigReady says what others miss. A manager that
// starts fetches the kubeconfig again.
package access
