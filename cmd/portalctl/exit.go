// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// exitCode tells scripts what came of a command. The numbers do not change.
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
	exitInterrupted exitCode = 130 // 128 + SIGINT, as shells have it
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

// failure is an error of which a command knows more than its cause tells: what it means, and what to do.
type failure struct {
	code   exitCode
	err    error
	advice string
}

// Error implements error.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap gives the cause.
func (f *failure) Unwrap() error { return f.err }

// wrong is a mistake in what the user gave.
func wrong(advice, format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...), advice: advice}
}

// rules say what errors mean to the user of a command line; the first that holds counts.
var rules = []struct {
	holds  func(error) bool
	code   exitCode
	advice string
}{
	{cloud.IsUnknownOutcome, exitUnknown, "look whether it has happened before you run the command again"},
	{isInterrupted, exitInterrupted, ""},
	{isConfiguration, exitUsage, ""}, // the error names the setting
	{isUnsent, exitUsage, ""},
	{isUnreadableToken, exitUnreachable, "the portal answers the one-time code in a form that this program does not know: " +
		"report it, with the output of 'portalctl doctor'"},
	{cloud.IsNotPortal, exitUnreachable, "compare --url: what answers there has no login as the portal has it; a path may be missing"},
	{cloud.IsTokenRefused, exitCredentials, "the login works, and the portal refuses the token that it has just issued: tell the portal's " +
		"support"},
	{cloud.IsCodeRefused, exitCredentials, "a one-time code counts once and for half a minute: wait for the next one; if it is " +
		"refused again, compare the seed, and this machine's clock"},
	{cloud.IsMFARequired, exitCredentials, "set PORTAL_TOTP_SEED, run the command at a terminal to be asked for the code, or " +
		"use a portal user without MFA"},
	{cloud.IsUnauthorized, exitCredentials, "compare --email and the password; 'portalctl password reset' has the portal " +
		"send a reset link"},
	{cloud.IsForbidden, exitRefused, "this user's role does not allow it; 'portalctl login' shows the role"},
	{cloud.IsNotFound, exitNotFound, "compare the id; the portal says the same of ids that belong to another account, so " +
		"compare the user as well ('portalctl login')"},
	{cloud.IsBusy, exitLater, "another operation holds it; try again when its job has ended"},
	{cloud.IsQuota, exitLater, "remove something, or have the account's quota raised"},
	{cloud.IsCapacity, exitLater, "try again later, or in another zone"},
	{cloud.IsRateLimited, exitLater, "others use the account's requests; try again"},
	{cloud.IsNotAllowed, exitRefused, "its state forbids that now"},
	{cloud.IsUnsupported, exitRefused, "this portal does not have the endpoint"},
	{cloud.IsInvalid, exitRefused, ""},
	{cloud.IsProxyCredentials, exitUnreachable, "the proxy between this machine and the portal asks for credentials: give them in HTTPS_PROXY, " +
		"or except the portal with NO_PROXY"},
	{cloud.IsUntrusted, exitUnreachable, "give the PEM file of the portal's authority with --ca-file or " + caFileVariable},
	{isSilent, exitUnreachable, "compare --url, and try again"},
	{cloud.IsUnavailable, exitUnreachable, "try again; if it lasts, give the portal's support the time and the request id"},
}

// explain gives the exit code of an error, and advice.
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

// isUnsent: refused by the client itself.
func isUnsent(err error) bool {
	var e *cloud.Error
	return cloud.IsInvalid(err) && errors.As(err, &e) && e.Endpoint == "" && e.Status == 0
}

// settings are where a user of this program sets what the client's configuration holds.
var settings = map[string]string{
	"baseURL": "--url", "email": "--email", "password": "the password", "caBundle": "--ca-file", "totpSeed": seedVariable,
}

// named is the error in the words of the command line.
func named(err error) error {
	var e *cloud.Error
	if isConfiguration(err) && errors.As(err, &e) {
		return fmt.Errorf("%s %s", settings[e.Field], e.Message)
	}
	return err
}

// isConfiguration: refused by the client for what it was made with.
func isConfiguration(err error) bool {
	var e *cloud.Error
	return isUnsent(err) && errors.As(err, &e) && settings[e.Field] != ""
}

// isUnreadableToken: the portal took the one-time code, and its answer has no token that the client can find.
func isUnreadableToken(err error) bool {
	var e *cloud.Error
	return cloud.IsNotPortal(err) && errors.As(err, &e) && strings.Contains(e.Endpoint, "/mfa/") && e.Status < 300
}

// isSilent: there was no answer at all.
func isSilent(err error) bool {
	var e *cloud.Error
	return cloud.IsUnavailable(err) && errors.As(err, &e) && e.Status == 0
}

// report tells what failed and what to do, and gives the exit code.
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
	// At which time to come back is the portal's word only where it limits the rate: the client's own pause after a
	// refused login ends with this program.
	if at, ok := cloud.RetryAt(err); ok && slices.Contains([]exitCode{exitLater, exitUnreachable}, code) {
		a.say("Not before: %s", at.UTC().Format(time.RFC3339))
	}
	if advice != "" {
		a.say("What to do: %s.", strings.TrimSuffix(advice, "."))
	}
	return code
}
