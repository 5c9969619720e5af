// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
	"github.com/capportal/cluster-api-provider-portal/version"
)

// Environment variables, for values without a flag.
const (
	urlVariable      = "PORTAL_URL"
	emailVariable    = "PORTAL_EMAIL"
	caFileVariable   = "PORTAL_CA_FILE"
	passwordVariable = "PORTAL_PASSWORD"
	seedVariable     = "PORTAL_TOTP_SEED"
)

// otpStep is how long a one-time code counts (RFC 6238).
const otpStep = 30 * time.Second

// connection holds the portal and its user.
type connection struct {
	url, email, caFile string
	passwordStdin      bool
	lines              *bufio.Reader // of standard input, once it is read
}

func (c *connection) bind(flags *pflag.FlagSet) {
	flags.StringVar(&c.url, "url", "", "base `URL` of the portal's API (default $"+urlVariable+")")
	flags.StringVar(&c.email, "email", "", "the portal user's `e-mail` (default $"+emailVariable+")")
	flags.StringVar(&c.caFile, "ca-file", "", "PEM `file` of the only authorities to trust (default $"+caFileVariable+", else the system's)")
	flags.BoolVar(&c.passwordStdin, "password-stdin", false, "read the password from the first line of standard input")
}

// config returns the client's configuration without the password, which may have to be asked for.
func (a *app) config() (cloud.Config, error) {
	config := cloud.Config{
		BaseURL:   strings.TrimSpace(cmp.Or(a.connection.url, a.getenv(urlVariable))), // for the Secret that 'identity' prints
		Email:     strings.TrimSpace(cmp.Or(a.connection.email, a.getenv(emailVariable))),
		TOTPSeed:  strings.TrimSpace(a.getenv(seedVariable)),
		Wait:      true,
		Transport: a.transport,
		UserAgent: "portalctl/" + version.Get().Version,
	}
	switch {
	case config.BaseURL == "":
		return config, usageError("give --url, or set "+urlVariable, "no portal was given")
	case config.Email == "":
		return config, usageError("give --email, or set "+emailVariable, "no portal user was given")
	}
	if file := cmp.Or(a.connection.caFile, a.getenv(caFileVariable)); file != "" {
		bundle, err := os.ReadFile(file)
		if err != nil {
			return config, usageError("correct --ca-file or "+caFileVariable, "read the CA file: %w", err)
		}
		config.CABundle = bundle
	}
	config.Observe = a.observe
	return config, nil
}

// credentials returns the configuration with everything that a login needs.
func (a *app) credentials(ctx context.Context) (cloud.Config, error) {
	config, err := a.config()
	if err != nil {
		return config, err
	}
	if config.Password, err = a.password(ctx, "Password of "+config.Email+": "); err != nil {
		return config, err
	}
	if config.TOTPSeed == "" && a.ask != nil {
		config.OTP = func(context.Context) (string, error) { // not with its context, which outlives an interrupt
			code, err := a.ask(ctx, "One-time code for "+config.Email+": ", true)
			return strings.TrimSpace(code), err
		}
	}
	return config, nil
}

// withClient returns the body of a command that logs in at the portal.
func (a *app) withClient(body func(ctx context.Context, client *cloud.Client, args []string) error) func(*cobra.Command, []string) error {
	return a.runs(func(ctx context.Context, args []string) error {
		client, err := a.connect(ctx)
		if err != nil {
			return err
		}
		defer client.Close()
		return body(ctx, client, args)
	})
}

// connect returns the client.
func (a *app) connect(ctx context.Context) (*cloud.Client, error) {
	config, err := a.credentials(ctx)
	if err != nil {
		return nil, err
	}
	return a.open(ctx, config)
}

// open returns the client of a configuration. If one-time codes are made from a seed, it logs in at once. Each code can be
// used once, and the command before this one, or the provider, may have used the present one.
func (a *app) open(ctx context.Context, config cloud.Config) (*cloud.Client, error) {
	config.Limiter = ratelimit.NewLimiter(ratelimit.Options{})
	client, err := cloud.New(config)
	if err != nil || config.TOTPSeed == "" {
		return client, err
	}
	if _, err = client.UserID(ctx); err == nil {
		return client, nil
	}
	client.Close()
	if !cloud.IsCodeRefused(err) {
		return nil, err
	}
	next := time.Now().Truncate(otpStep).Add(otpStep)
	a.say("The portal refused the one-time code, which may have been used already. Waiting %s for the next one.", time.Until(next).Round(time.Second))
	if err := waitUntil(ctx, next); err != nil {
		return nil, err
	}
	return cloud.New(config) // no third code is tried, because that would be guessing
}

// password returns the password: from standard input with --password-stdin, else from the environment, else from a prompt.
func (a *app) password(ctx context.Context, prompt string) (string, error) {
	if password := a.getenv(passwordVariable); password != "" && !a.connection.passwordStdin {
		return password, nil
	}
	return a.secretInput(ctx, prompt)
}

// secretInput reads one secret from standard input with --password-stdin, else from a prompt.
func (a *app) secretInput(ctx context.Context, prompt string) (secret string, err error) {
	switch {
	case a.connection.passwordStdin:
		secret, err = a.line()
	case a.ask != nil:
		secret, err = a.ask(ctx, prompt, true)
	default:
		return "", usageError("use --password-stdin. Most commands also take the password from "+passwordVariable, "there is no terminal to ask for a secret")
	}
	if err == nil && secret == "" {
		return "", usageError("", "nothing was given for: %s", strings.TrimSuffix(prompt, ": "))
	}
	return secret, err
}

// line reads the next line of standard input.
func (a *app) line() (string, error) {
	if a.connection.lines == nil {
		a.connection.lines = bufio.NewReader(a.in)
	}
	text, err := a.connection.lines.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimRight(text, "\r\n"), nil
}

// observe prints each request with --verbose, and what a person waits for in any case: a portal may ask to wait for an hour.
func (a *app) observe(call cloud.Call) {
	if a.verbose {
		a.trace(call)
	}
	if call.RetryAfter > 0 {
		a.say("The rate limit of the portal account is used up. The portal asks to wait %s, until %s.", call.RetryAfter.Round(time.Second),
			time.Now().Add(call.RetryAfter).UTC().Format(time.RFC3339))
	}
}

// trace prints a request for --verbose. A Call contains neither ids nor secrets.
func (a *app) trace(call cloud.Call) {
	answer := "no answer"
	if call.Status != 0 {
		answer = strings.TrimSpace(strconv.Itoa(call.Status) + " " + string(call.Code))
	}
	waited := ""
	if call.Waited >= time.Second {
		waited = ", after waiting " + call.Waited.Round(time.Second).String() + " for the rate limit"
	}
	a.say("  %s → %s (%s%s)", call.Endpoint, answer, call.Duration.Round(time.Millisecond), waited)
}
