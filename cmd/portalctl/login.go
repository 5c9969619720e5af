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
		Short: "Check credentials: log in, use the token once, and tell what it is good for",
		Long: `Check credentials: log in, with a one-time code if the account has MFA, use the token for one request, and show user,
role, MFA and the token's life. The token is neither shown nor kept.`,
		Args: cobra.NoArgs,
		RunE: a.runs(func(ctx context.Context, _ []string) error { return a.login(ctx) }),
	}
}

func (a *app) login(ctx context.Context) error {
	config, err := a.credentials(ctx)
	if err != nil {
		return err
	}
	watch := newWitness(a.transport, config.CABundle)
	config.Transport = watch
	client, err := a.open(ctx, config)
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.UserID(ctx); err != nil {
		return err
	}
	// Any request shows whether the token is taken. A role that may not list versions has a good token all the same.
	if _, err := client.KubernetesVersions(ctx); err != nil && !cloud.IsForbidden(err) {
		return err
	}
	return a.printLogin(config, watch)
}

func (a *app) printLogin(config cloud.Config, watch *witness) error {
	watch.mu.Lock()
	defer watch.mu.Unlock()
	value := struct {
		loginRecord
		TokenExpires *time.Time `json:"tokenExpires,omitempty"` // the portal's clock
	}{loginRecord: watch.login}
	life := "not told; 8h by the portal's specification"
	if !watch.expires.IsZero() {
		utc := watch.expires.UTC()
		value.TokenExpires = &utc
		life = "until " + utc.Format(time.RFC3339)
		if !watch.issued.IsZero() {
			life = "for " + watch.expires.Sub(watch.issued).String() + ", " + life
		}
	}
	mfa := "off"
	switch {
	case value.MFARequired && config.TOTPSeed != "":
		mfa = "on; the code was made from " + seedVariable
	case value.MFARequired:
		mfa = "on; the provider needs the seed (" + seedVariable + "), since nobody can type its codes"
	}
	return a.print(value, table{rows: [][]string{
		{"Portal", config.BaseURL},
		{"E-mail", value.User.Email},
		{"User id", value.User.ID},
		{"Role", value.User.Role},
		{"MFA", mfa},
		{"Token", "accepted, valid " + life},
	}})
}
