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

// codeLetters are the characters of all listed codes.
const codeLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"

// cleanCode is clean for an error code. A listed code, or another one of the same characters, is shown even if a password is a part of
// it: the refusal would mean something else without its code, and everyone who knows the code would know the password.
func cleanCode(text string, secrets []string) Code {
	_, listed := kindOfCode[Code(text)]
	if listed || len(text) <= maxName && strings.Trim(text, codeLetters) == "" && !slices.Contains(secrets, text) {
		return Code(text)
	}
	return Code(clean(text, maxName, secrets))
}

// clean makes text of the portal fit to be shown: one line, no control or invisible formatting characters (they
// could rewrite a terminal), at most limit characters. Text that contains one of the secrets becomes empty: if a password were a word
// of a known sentence, a gap would reveal it.
func clean(text string, limit int, secrets []string) string {
	text = strings.ToValidUTF8(text, "?")
	if slices.ContainsFunc(secrets, func(s string) bool { return s != "" && strings.Contains(text, s) }) {
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
