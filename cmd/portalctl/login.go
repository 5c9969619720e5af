// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

func (a *app) loginCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "login",
		Short: "Check credentials: log in, use the token once, and show what it allows",
		Long: `Check credentials: log in, with a one-time code if the account has MFA, use the token for one request, and show user,
role, MFA and the token's life. The token is neither shown nor kept.`,
		Args: cobra.NoArgs,
		RunE: a.runs(func(ctx context.Context, _ []string) error { return a.login(ctx) }),
	}
}

// login makes the same requests as the provider, over the same connection.
func (a *app) login(ctx context.Context) error {
	config, err := a.credentials(ctx)
	if err != nil {
		return err
	}
	client, err := a.open(ctx, config)
	if err != nil {
		return err
	}
	defer client.Close()
	login, err := client.Login(ctx)
	if err != nil {
		return err
	}
	// Any request shows whether the portal accepts the token. Even a role that may not list versions has a valid token.
	if _, err := client.KubernetesVersions(ctx); err != nil && !cloud.IsForbidden(err) {
		return err
	}
	return a.printLogin(config, login)
}

// loginRecord is the result of a login (specification, "Login result"), without the token.
type loginRecord struct {
	User         userRecord `json:"user"`
	MFARequired  bool       `json:"mfaRequired"`
	TokenExpires *time.Time `json:"tokenExpires,omitempty"` // the portal's clock
}

type userRecord struct {
	ID    string `json:"id"`
	Email string `json:"email"`
	Role  string `json:"role"`
}

func (a *app) printLogin(config cloud.Config, login cloud.Login) error {
	value := loginRecord{User: userRecord{login.UserID, login.Email, login.Role}, MFARequired: login.MFARequired}
	if !login.Expires.IsZero() {
		utc := login.Expires.UTC()
		value.TokenExpires = &utc
	}
	return a.print(value, table{rows: [][]string{
		{"Portal", config.BaseURL},
		{"E-mail", value.User.Email},
		{"User id", value.User.ID},
		{"Role", value.User.Role},
		{"MFA", mfaState(config, login)},
		{"Token", "accepted, " + tokenLife(login)},
	}})
}

func mfaState(config cloud.Config, login cloud.Login) string {
	switch {
	case !login.MFARequired:
		return "off"
	case config.TOTPSeed != "":
		return "on, the code was made from " + seedVariable
	}
	return "on, the provider needs the seed (" + seedVariable + "), because it cannot ask a person for codes"
}

// tokenLife describes how long the token is valid, by the portal's clock.
func tokenLife(login cloud.Login) string {
	if login.Expires.IsZero() {
		return "lifetime not reported, 8h by the portal's specification"
	}
	life := "valid until " + login.Expires.UTC().Format(time.RFC3339)
	if !login.Issued.IsZero() {
		life = "valid for " + login.Expires.Sub(login.Issued).String() + ", until " + login.Expires.UTC().Format(time.RFC3339)
	}
	return life
}
