// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
)

const identityLong = `Print the Secret with the provider's portal user. Its content comes from --url, --email, --ca-file, the password and
$PORTAL_TOTP_SEED. The output contains the password, in base64, which hides nothing. Pipe it to kubectl, or to a tool
that seals it, and do not commit it. Use server-side apply, for a new Secret and for a new password alike: it
keeps the password out of annotations, and does not remove the provider's finalizer.

With --check it logs in first, without asking for a one-time code, like the provider. If that fails, nothing
is printed.`

// secretManifest is the part of a Kubernetes Secret that is printed.
type secretManifest struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   secretMetadata    `json:"metadata"`
	Type       string            `json:"type"`
	Data       map[string][]byte `json:"data"` // not stringData: server-side apply knows who owns data
}

type secretMetadata struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// namePart is a name in Kubernetes without dots (RFC 1123).
const namePart = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`

var (
	secretName    = regexp.MustCompile(`^` + namePart + `(\.` + namePart + `)*$`)
	namespaceName = regexp.MustCompile(`^` + namePart + `$`)
)

// check refuses names that no API server takes.
func (m secretMetadata) check() error {
	const letters = "must consist of lower case letters, digits and dashes, and begin and end with a letter or digit"
	switch {
	case len(m.Name) > 253 || !secretName.MatchString(m.Name):
		return fmt.Errorf("--name %q %s. Dots are allowed, too", m.Name, letters)
	case len(m.Namespace) > 63 || !namespaceName.MatchString(m.Namespace):
		return fmt.Errorf("--namespace %q %s", m.Namespace, letters)
	}
	return nil
}

func (a *app) identityCommand() *cobra.Command {
	var at secretMetadata
	var check bool
	var account, creations string
	var limit int
	cmd := &cobra.Command{
		Use:     "identity",
		Short:   "Print the Kubernetes Secret that the provider reads",
		Long:    identityLong,
		Example: "  portalctl identity --check --namespace fleet | kubectl apply --server-side -f -",
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			if creations != "" && creations != infrav1.CreationsHeld && creations != infrav1.CreationsAllowed {
				return fmt.Errorf("--creations %q must be %s or %s", creations, infrav1.CreationsHeld, infrav1.CreationsAllowed)
			}
			return at.check()
		},
		RunE: a.runs(func(ctx context.Context, _ []string) error {
			config, err := a.credentials(ctx)
			if err != nil {
				return err
			}
			config.Account, config.RequestsPerMinute = account, limit
			if err := a.checkIdentity(ctx, config, check); err != nil {
				return err
			}
			return a.printIdentity(config, at, creations)
		}),
	}
	cmd.Flags().StringVar(&at.Name, "name", "portal-identity", "name of the Secret")
	cmd.Flags().StringVar(&at.Namespace, "namespace", "default", "namespace of the Secret: that of the PortalCluster")
	cmd.Flags().StringVar(&account, "account", "", "name of the portal account, the same for all its users (account)")
	cmd.Flags().IntVar(&limit, "requests-per-minute", 0, "rate limit of the account, if the portal does not name it (requestsPerMinute)")
	cmd.Flags().StringVar(&creations, "creations", "", "held: the provider creates no cluster, network or VPC, until it is allowed (creations)")
	cmd.Flags().BoolVar(&check, "check", false, "log in first")
	return cmd
}

// checkIdentity makes sure that the provider can use the configuration.
func (a *app) checkIdentity(ctx context.Context, config cloud.Config, check bool) error {
	config.OTP = nil // the provider cannot ask a person for codes
	if !check {
		_, err := cloud.New(config)
		return err
	}
	client, err := a.open(ctx, config)
	if err != nil {
		return err
	}
	defer client.Close()
	user, err := client.UserID(ctx)
	if cloud.IsMFARequired(err) {
		return &failure{code: exitCredentials, err: err, advice: "set " + seedVariable + ", from which the provider makes the " +
			"codes that no person can type for it, or use a portal user without MFA"}
	}
	if err != nil {
		return err
	}
	a.say("The login works: %s is user %s.", config.Email, cell(user))
	return nil
}

func (a *app) printIdentity(config cloud.Config, at secretMetadata, creations string) error {
	data := map[string][]byte{
		infrav1.IdentityBaseURL:  []byte(config.BaseURL),
		infrav1.IdentityEmail:    []byte(config.Email),
		infrav1.IdentityPassword: []byte(config.Password),
	}
	if len(config.CABundle) > 0 {
		data[infrav1.IdentityCABundle] = config.CABundle
	}
	if config.TOTPSeed != "" {
		data[infrav1.IdentityTOTPSeed] = []byte(config.TOTPSeed)
	}
	if config.Account != "" {
		data[infrav1.IdentityAccount] = []byte(config.Account)
	}
	if config.RequestsPerMinute != 0 {
		data[infrav1.IdentityRequestsPerMinute] = []byte(strconv.Itoa(config.RequestsPerMinute))
	}
	if creations != "" {
		data[infrav1.IdentityCreations] = []byte(creations)
	}
	if a.output == formatTable {
		a.output = formatYAML
	}
	return a.printValue(secretManifest{APIVersion: "v1", Kind: "Secret", Metadata: at, Type: "Opaque", Data: data})
}
