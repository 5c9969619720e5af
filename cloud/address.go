// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"cmp"
	"net/url"
	"strings"
)

// Address returns one spelling of a portal's base URL, or "" if it is none. Ids of one portal mean nothing at another.
func Address(baseURL string) string {
	base, err := url.Parse(strings.TrimSpace(baseURL))
	if err != nil || base.Hostname() == "" {
		return ""
	}
	return strings.ToLower(base.Hostname()) + ":" + cmp.Or(base.Port(), "443") + strings.TrimRight(base.EscapedPath(), "/")
}

// Address is the client's portal.
func (c *Client) Address() string { return c.address }
