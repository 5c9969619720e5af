// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"strings"
	"unicode"
)

// Bounds, in characters, of what the portal may put into an error.
const (
	maxMessage = 500
	maxName    = 128
)

// clean makes text of the portal fit to be shown: one line, no control or invisible formatting characters (they
// could rewrite a terminal), at most limit characters, and none of the secrets, should the portal echo one.
func clean(text string, limit int, secrets []string) string {
	text = strings.ToValidUTF8(text, "?")
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "[redacted]")
		}
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
