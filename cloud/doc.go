// SPDX-License-Identifier: Apache-2.0

// Package cloud is the client of the portal.
package cloud
