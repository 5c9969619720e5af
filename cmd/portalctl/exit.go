// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// exitCode reports the result of a command to scripts. The numbers do not change.
type exitCode int

const (
	exitOK          exitCode = 0
	exitOther       exitCode = 1
	exitUsage       exitCode = 2
	exitCredentials exitCode = 3
	exitNotFound    exitCode = 4
	exitRefused     exitCode = 5
	exitLater       exitCode = 6
	exitJobFailed   exitCode = 7
	exitUnknown     exitCode = 8
	exitUnreachable exitCode = 9
	exitStillRuns   exitCode = 10
	exitInterrupted exitCode = 130 // 128 + SIGINT, like in shells
)

var exitMeanings = []struct {
	code    exitCode
	meaning string
}{
	{exitOK, "done"},
	{exitOther, "another failure, such as a file that cannot be written; or a question was answered with no"},
	{exitUsage, "wrong command line or configuration; nothing was sent"},
	{exitCredentials, "the login was refused, or the account has MFA and no one-time code was given"},
	{exitNotFound, "no such thing in this account"},
	{exitRefused, "refused: invalid, not allowed in this state, or not allowed to this user"},
	{exitLater, "not now: busy, over quota, no capacity, or rate limited"},
	{exitJobFailed, "the job has failed"},
	{exitUnknown, "the portal's answer was lost; whether it did the work is not known"},
	{exitUnreachable, "the portal cannot be reached, is down, or does not speak this API"},
	{exitStillRuns, "the job still ran when --timeout was over"},
	{exitInterrupted, "interrupted; a job that was started runs on"},
}

func exitCodeHelp() string {
	var b strings.Builder
	for _, m := range exitMeanings {
		fmt.Fprintf(&b, "  %3d  %s\n", m.code, m.meaning)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// failure is an error with the exit code and the advice of a command.
type failure struct {
	code   exitCode
	err    error
	advice string
}

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap returns the cause.
func (f *failure) Unwrap() error { return f.err }

// usageError returns the failure for a mistake in the user's input.
func usageError(advice, format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...), advice: advice}
}

// rules map errors to exit codes and advice. The first rule that holds counts.
var rules = []struct {
	holds  func(error) bool
	code   exitCode
	advice string
}{
	{cloud.IsUnknownOutcome, exitUnknown, "check whether it has happened before you run the command again"},
	{isInterrupted, exitInterrupted, ""},
	{isConfiguration, exitUsage, ""}, // the error names the setting
	{isUnsent, exitUsage, ""},
	{isUnreadableToken, exitUnreachable, "the portal's answer to the one-time code has an unknown form: " +
		"report this, with the output of 'portalctl doctor'"},
	{cloud.IsNotPortal, exitUnreachable, "compare --url: the server there has no login like the portal's. A path may be missing"},
	{cloud.IsTokenRefused, exitCredentials, "the login works, but the portal refuses the token that it has just issued: ask the portal's " +
		"support"},
	{cloud.IsCodeRefused, exitCredentials, "a one-time code can be used once, within half a minute: wait for the next one. If it is " +
		"refused again, check the seed, and this machine's clock"},
	{cloud.IsMFARequired, exitCredentials, "set PORTAL_TOTP_SEED, run the command at a terminal to be asked for the code, or " +
		"use a portal user without MFA"},
	{cloud.IsUnauthorized, exitCredentials, "check --email and the password. 'portalctl password reset' makes the portal " +
		"send a reset link"},
	{cloud.IsForbidden, exitRefused, "this user's role does not allow it ('portalctl login' shows the role)"},
	{cloud.IsNotFound, exitNotFound, "check the id. The portal gives the same answer for ids of another account, so " +
		"check the user as well ('portalctl login')"},
	{isBeyondBound, exitRefused, "ask for less, or have the bound raised"},
	{cloud.IsBusy, exitLater, "another operation is running. Try again when its job has ended"},
	{cloud.IsQuota, exitLater, "remove something, or have the account's quota raised"},
	{cloud.IsCapacity, exitLater, "try again later, or in another zone"},
	{cloud.IsRateLimited, exitLater, "other clients use up the account's rate limit. Try again"},
	{cloud.IsNotAllowed, exitRefused, "its state does not allow this now"},
	{cloud.IsUnsupported, exitRefused, "this portal does not have the endpoint"},
	{cloud.IsInvalid, exitRefused, ""},
	{cloud.IsProxyCredentials, exitUnreachable, "the proxy between this machine and the portal asks for credentials: give them in HTTPS_PROXY, " +
		"or except the portal with NO_PROXY"},
	{cloud.IsUntrusted, exitUnreachable, "give the PEM file of the portal's authority with --ca-file or " + caFileVariable},
	{isUnanswered, exitUnreachable, "compare --url, and try again"},
	{cloud.IsUnavailable, exitUnreachable, "try again. If it lasts, give the portal's support the time and the request id"},
}

// explain returns the exit code of an error, and advice.
func explain(err error) (exitCode, string) {
	var known *failure
	if errors.As(err, &known) {
		return known.code, known.advice
	}
	for _, r := range rules {
		if r.holds(err) {
			return r.code, r.advice
		}
	}
	return exitOther, ""
}

func isInterrupted(err error) bool { return errors.Is(err, context.Canceled) }

// isUnsent reports whether the client itself refused the request.
func isUnsent(err error) bool {
	var e *cloud.Error
	return cloud.IsInvalid(err) && errors.As(err, &e) && e.Endpoint == "" && e.Status == 0
}

// settings name the flags and variables that set the fields of the client's configuration.
var settings = map[string]string{
	"baseURL": "--url", "email": "--email", "password": "the password", "caBundle": "--ca-file", "totpSeed": seedVariable,
	"requestsPerMinute": "--requests-per-minute",
}

// named returns the error with the names of flags and variables.
func named(err error) error {
	var e *cloud.Error
	if isConfiguration(err) && errors.As(err, &e) {
		return fmt.Errorf("%s %s", settings[e.Field], e.Message)
	}
	return err
}

// isConfiguration reports whether the client refused its configuration.
func isConfiguration(err error) bool {
	var e *cloud.Error
	return isUnsent(err) && errors.As(err, &e) && settings[e.Field] != ""
}

// isUnreadableToken reports whether the portal accepted the one-time code, but the client found no token in its answer.
func isUnreadableToken(err error) bool {
	var e *cloud.Error
	return cloud.IsNotPortal(err) && errors.As(err, &e) && strings.Contains(e.Endpoint, "/mfa/") && e.Status < 300
}

// isBeyondBound reports whether a value of the request exceeds a quota by itself. It will at any time, unlike what others use up.
func isBeyondBound(err error) bool {
	var e *cloud.Error
	return cloud.IsQuota(err) && errors.As(err, &e) && e.Field != ""
}

// isUnanswered reports whether there was no answer at all.
func isUnanswered(err error) bool {
	var e *cloud.Error
	return cloud.IsUnavailable(err) && errors.As(err, &e) && e.Status == 0
}

// report prints the failure and what to do, and returns the exit code.
func (a *app) report(err error) exitCode {
	code, advice := explain(err)
	if code == exitInterrupted && isInterrupted(err) {
		err = errors.New("interrupted; nothing was changed") // what changes something is not called off
	}
	a.say("Error: %v", named(err))
	var e *cloud.Error
	if errors.As(err, &e) && e.RequestID != "" {
		a.say("Request id, for the portal's support: %s", e.RequestID)
	}
	// The client's own pauses end with this program.
	if e != nil && !e.PortalRetryAt.IsZero() {
		a.say("Not before: %s", e.PortalRetryAt.UTC().Format(time.RFC3339))
	}
	if advice != "" {
		a.say("What to do: %s.", strings.TrimSuffix(advice, "."))
	}
	return code
}
