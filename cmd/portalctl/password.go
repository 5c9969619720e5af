// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

func (a *app) passwordCommand() *cobra.Command {
	return group("password", "Reset a forgotten password", a.passwordReset(), a.passwordComplete())
}

// noLogin is the password of a client whose calls need none. It is never sent.
const noLogin = "none"

func (a *app) passwordReset() *cobra.Command {
	return &cobra.Command{
		Use:   "reset",
		Short: "Make the portal send a reset link to --email",
		Args:  cobra.NoArgs,
		RunE: a.runs(func(ctx context.Context, _ []string) error {
			config, err := a.config()
			if err != nil {
				return err
			}
			config.Password = noLogin
			client, err := cloud.New(config)
			if err != nil {
				return err
			}
			defer client.Close()
			call := func(ctx context.Context) error { return client.RequestPasswordReset(ctx, config.Email) }
			if err := sendWithoutLogin(ctx, a, client, "request for a reset link", call); err != nil {
				return withUnknownOutcomeAdvice(err, "run the same command again: at worst there are two links, and the newer one counts")
			}
			a.say("If %s is a user of the portal, a reset link is on its way there. The last part of the link is the reset "+
				"token:\nportalctl password complete asks for it.", config.Email)
			return nil
		}),
	}
}

func (a *app) passwordComplete() *cobra.Command {
	return &cobra.Command{
		Use:   "complete",
		Short: "Set a new password with the token of a reset link",
		Long: `Set a new password with the token of a reset link, which is the last part of the link. The command asks for both, or
reads them from the first and the second line of standard input with --password-stdin.

Every identity Secret with the old password stops working. 'portalctl identity' prints a new one.`,
		Args: cobra.NoArgs,
		RunE: a.runs(func(ctx context.Context, _ []string) error {
			config, err := a.config()
			if err != nil {
				return err
			}
			token, err := a.secretInput(ctx, "Reset token, the last part of the link: ")
			if err != nil {
				return err
			}
			if config.Password, err = a.newPassword(ctx); err != nil {
				return err
			}
			client, err := cloud.New(config)
			if err != nil {
				return err
			}
			defer client.Close()
			call := func(ctx context.Context) error { return client.ResetPassword(ctx, token, config.Password) }
			if err := sendWithoutLogin(ctx, a, client, "new password", call); err != nil {
				return withUnknownOutcomeAdvice(err, "try to log in with the new password: portalctl login")
			}
			a.say("The password is set. Try it: portalctl login")
			return nil
		}),
	}
}

// sendWithoutLogin makes a call that changes something and needs no login.
func sendWithoutLogin(ctx context.Context, a *app, client *cloud.Client, what string, call func(context.Context) error) error {
	none := func(context.Context) error { return nil }
	_, err := sendAfter(ctx, a, client, none, waiting{}, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// newPassword asks twice for a password, which is not shown.
func (a *app) newPassword(ctx context.Context) (string, error) {
	password, err := a.secretInput(ctx, "New password: ")
	if err != nil || a.connection.passwordStdin {
		return password, err
	}
	again, err := a.secretInput(ctx, "New password, again: ")
	if err == nil && again != password {
		err = usageError("", "the passwords differ, nothing was changed")
	}
	return password, err
}

// withUnknownOutcomeAdvice replaces the advice for an unknown outcome.
func withUnknownOutcomeAdvice(err error, advice string) error {
	if !cloud.IsUnknownOutcome(err) {
		return err
	}
	return &failure{code: exitUnknown, err: err, advice: advice}
}

func (a *app) mfaCommand() *cobra.Command {
	return group("mfa", "Multi-factor authentication", a.mfaDisable())
}

func (a *app) mfaDisable() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "disable IDP",
		Short: "Disable MFA for the users of an identity provider (Administrator)",
		Args:  cobra.ExactArgs(1),
		RunE: a.withClient(func(ctx context.Context, client *cloud.Client, args []string) error {
			if err := a.confirm(ctx, yes, "Disable MFA for the users of identity provider "+args[0]+"?"); err != nil {
				return err
			}
			what := "disabling of MFA for " + args[0]
			_, err := sendChange(ctx, a, client, waiting{}, what, func(ctx context.Context) (struct{}, error) {
				return struct{}{}, client.DisableMFA(ctx, args[0])
			})
			if err != nil {
				return withUnknownOutcomeAdvice(fmt.Errorf("%s: %w", what, err), repeatable(ctx))
			}
			a.say("MFA is disabled for the users of identity provider %s.", args[0])
			return nil
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}
