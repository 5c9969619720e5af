// SPDX-License-Identifier: Apache-2.0

// Package attacks tries what a tenant could do to the manager and to other tenants.
package attacks
