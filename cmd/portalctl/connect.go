// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
	"github.com/capportal/cluster-api-provider-portal/version"
)

// The environment, where flags are not given or not offered.
const (
	urlVariable      = "PORTAL_URL"
	emailVariable    = "PORTAL_EMAIL"
	caFileVariable   = "PORTAL_CA_FILE"
	passwordVariable = "PORTAL_PASSWORD"
	seedVariable     = "PORTAL_TOTP_SEED"
)

// otpStep is how long a one-time code counts (RFC 6238).
const otpStep = 30 * time.Second

// connection says which portal, and as whom.
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

// config is the client's configuration without a password: that costs a question.
func (a *app) config() (cloud.Config, error) {
	config := cloud.Config{
		BaseURL:   either(a.connection.url, a.getenv(urlVariable)),
		Email:     either(a.connection.email, a.getenv(emailVariable)),
		TOTPSeed:  a.getenv(seedVariable),
		Wait:      true,
		Transport: a.transport,
		UserAgent: "portalctl/" + version.Get().Version,
	}
	switch {
	case config.BaseURL == "":
		return config, wrong("give --url, or set "+urlVariable, "which portal is not known")
	case config.Email == "":
		return config, wrong("give --email, or set "+emailVariable, "the portal user is not known")
	}
	if file := either(a.connection.caFile, a.getenv(caFileVariable)); file != "" {
		bundle, err := os.ReadFile(file)
		if err != nil {
			return config, wrong("correct --ca-file or "+caFileVariable, "read the CA file: %w", err)
		}
		config.CABundle = bundle
	}
	if a.verbose {
		config.Observe = a.tell
	}
	return config, nil
}

// credentials is the configuration with everything that a login takes.
func (a *app) credentials(ctx context.Context) (cloud.Config, error) {
	config, err := a.config()
	if err != nil {
		return config, err
	}
	if config.Password, err = a.password(ctx, "Password of "+config.Email+": "); err != nil {
		return config, err
	}
	if config.TOTPSeed == "" && a.ask != nil {
		config.OTP = func(context.Context) (string, error) { // whose context outlives an interrupt
			code, err := a.ask(ctx, "One-time code for "+config.Email+": ", true)
			return strings.TrimSpace(code), err
		}
	}
	return config, nil
}

// connect makes the client.
func (a *app) connect(ctx context.Context) (*cloud.Client, error) {
	config, err := a.credentials(ctx)
	if err != nil {
		return nil, err
	}
	return a.open(ctx, config)
}

// open makes the client of a configuration. Where one-time codes are made from a seed it logs in at once, since each
// code counts once: the command before this one, or the provider, may have used the present one.
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
	a.say("The portal refused the one-time code; it may have been used already. Waiting %s for the next one.", time.Until(next).Round(time.Second))
	if err := rest(ctx, next); err != nil {
		return nil, err
	}
	return cloud.New(config) // and no third code: more would be guessing
}

// password is that of the user: from standard input if asked for, else from the environment, else from a person.
func (a *app) password(ctx context.Context, prompt string) (string, error) {
	if password := a.getenv(passwordVariable); password != "" && !a.connection.passwordStdin {
		return password, nil
	}
	return a.secretInput(ctx, prompt)
}

// secretInput takes one secret from standard input if asked for, else from a person.
func (a *app) secretInput(ctx context.Context, prompt string) (secret string, err error) {
	switch {
	case a.connection.passwordStdin:
		secret, err = a.line()
	case a.ask != nil:
		secret, err = a.ask(ctx, prompt, true)
	default:
		return "", wrong("use --password-stdin; most commands also take the password from "+passwordVariable, "there is no terminal to ask for a secret")
	}
	if err == nil && secret == "" {
		return "", wrong("", "nothing was given for: %s", strings.TrimSuffix(prompt, ": "))
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

// tell is what --verbose shows of a request; a Call holds neither ids nor secrets.
func (a *app) tell(call cloud.Call) {
	answer := "no answer"
	if call.Status != 0 {
		answer = strings.TrimSpace(itoa(call.Status) + " " + string(call.Code))
	}
	waited := ""
	if call.Waited >= time.Second {
		waited = ", after waiting " + call.Waited.Round(time.Second).String() + " for the rate limit"
	}
	a.say("  %s → %s (%s%s)", call.Endpoint, answer, call.Duration.Round(time.Millisecond), waited)
}

func either(first, second string) string {
	if first != "" {
		return first
	}
	return second
}
