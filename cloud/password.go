// SPDX-License-Identifier: Apache-2.0

package cloud

import "context"

// RequestPasswordReset makes the portal send a reset link to the e-mail. No login is needed.
func (c *Client) RequestPasswordReset(ctx context.Context, email string) error {
	if email == "" {
		return invalidInput("email", "is missing")
	}
	_, _, err := c.ask(ctx, routeResetPassword, "", map[string]string{"email": email})
	return err
}

// ResetPassword completes a reset with the token of the link. The client keeps its own credentials: make a new one
// to use the new password.
func (c *Client) ResetPassword(ctx context.Context, resetToken, password string) error {
	if password == "" {
		return invalidInput("password", "is missing")
	}
	request, err := newCall(routeSetPassword, resetToken, map[string]string{"password": password})
	if err != nil {
		return err
	}
	request.hidden = []string{resetToken, password}
	_, err = c.send(ctx, request)
	return err
}

// DisableMFA manages MFA for the setup of an identity provider. idp names its variant. The user must be an Administrator.
func (c *Client) DisableMFA(ctx context.Context, idp string) error {
	_, _, err := c.ask(ctx, routeDisableMFA, idp, nil)
	return err
}
