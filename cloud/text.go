// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"slices"
	"strings"
	"unicode"
)

// Bounds, in characters, of what the portal may put into an error.
const (
	maxMessage = 500
	maxName    = 128
)

// withheldMessage replaces a message that contains a secret. The rest of the message is not shown either: if a password were a
// word of a known sentence, the gap would reveal it.
const withheldMessage = "the portal's message is not shown because it contains a secret"

// cleanMessage is clean for a message.
func cleanMessage(text string, secrets []string) string {
	if holdsSecret(text, secrets) {
		return withheldMessage
	}
	return clean(text, maxMessage, secrets)
}

// cleanCode is clean for an error code. A listed code is never a secret, even if a password is a part of it.
func cleanCode(text string, secrets []string) Code {
	if _, listed := kindOfCode[Code(text)]; listed {
		return Code(text)
	}
	return Code(clean(text, maxName, secrets))
}

func holdsSecret(text string, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(s string) bool { return s != "" && strings.Contains(text, s) })
}

// clean makes text of the portal fit to be shown: one line, no control or invisible formatting characters (they
// could rewrite a terminal), at most limit characters. Text that contains one of the secrets becomes empty.
func clean(text string, limit int, secrets []string) string {
	text = strings.ToValidUTF8(text, "?")
	if holdsSecret(text, secrets) {
		return ""
	}
	text = strings.Map(printable, text)
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > limit {
		text = string(runes[:limit-1]) + "…"
	}
	return text
}

func printable(r rune) rune {
	switch {
	case unicode.IsSpace(r), unicode.IsControl(r):
		return ' '
	case unicode.IsPrint(r):
		return r
	}
	return -1
}

// secret holds a password, token or seed. It is a function because fmt, log libraries and encoders that walk a
// struct by reflection then find an address and not the text, also where they cannot call a method of ours.
type secret func() string

func conceal(text string) secret { return func() string { return text } }

// reveal returns the text, or "" for no secret.
func (s secret) reveal() string {
	if s == nil {
		return ""
	}
	return s()
}
