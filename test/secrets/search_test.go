// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// layers is the maximum number of encodings around a secret: a hexdump of JSON has kubeconfigs in base64, and these have keys in
	// base64.
	layers = 3
	// pieceLength is how much of a long secret counts as the secret, because logs truncate texts.
	pieceLength = 24
)

// decoders map the name of an encoding to a function that returns the decoded parts of a text, in order and separated.
var decoders = map[string]func(string) string{
	"escaped": unescape,
	"in a URL": func(text string) string {
		return percent.ReplaceAllStringFunc(strings.ReplaceAll(text, "+", " "), func(c string) string { return number(c[1:], 16) })
	},
	"in base64":      fromBase64,
	"in hexadecimal": fromHex,
	"as bytes":       fromBytes,
	"in a hexdump":   fromHexdump,
}

// secrets maps texts that must not be written to their descriptions.
type secrets map[string]string

func (s secrets) add(what, text string) {
	if text != "" {
		s[text] = what
	}
}

// jsonWebToken matches enough of a token to recognize a truncated one.
var jsonWebToken = regexp.MustCompile(`eyJ[\w-]{8,}\.eyJ[\w-]{8,}`)

// in returns the secrets that a text contains, each with the encodings around it.
func (s secrets) in(text string) map[string]string {
	found := map[string]string{}
	s.look(text, nil, found)
	return found
}

func (s secrets) look(text string, around []string, found map[string]string) {
	note := func(what string) {
		how := "plain"
		if len(around) > 0 {
			how = strings.Join(around, ", ")
		}
		if before, known := found[what]; !known || len(how) < len(before) {
			found[what] = how
		}
	}
	for secret, what := range s {
		if slices.ContainsFunc(pieces(secret), func(piece string) bool { return strings.Contains(text, piece) }) {
			note(what)
		}
	}
	if jsonWebToken.MatchString(text) {
		note("a JSON web token")
	}
	if len(around) == layers || text == "" {
		return
	}
	for name, decode := range decoders {
		if decoded := decode(text); decoded != text {
			s.look(decoded, append(slices.Clone(around), name), found)
		}
	}
}

// pieces returns the overlapping parts of a long secret.
func pieces(secret string) []string {
	if len(secret) <= pieceLength {
		return []string{secret}
	}
	var all []string
	for at := 0; at+pieceLength <= len(secret); at += pieceLength / 2 {
		all = append(all, secret[at:at+pieceLength])
	}
	return all
}

var (
	escape  = regexp.MustCompile(`\\(?:u00[0-9a-fA-F]{2}|x[0-9a-fA-F]{2}|.)`)
	percent = regexp.MustCompile(`%[0-9a-fA-F]{2}`)
)

// unescape reverses the escapes of JSON and of Go's %q.
func unescape(text string) string {
	return escape.ReplaceAllStringFunc(text, func(c string) string {
		switch c[1] {
		case 'n':
			return "\n"
		case 't':
			return "\t"
		case 'u', 'x':
			return number(c[len(c)-2:], 16)
		}
		return c[1:]
	})
}

// number returns the byte with the given value, or "" if the digits are not a byte.
func number(digits string, base int) string {
	b, err := strconv.ParseUint(digits, base, 8)
	if err != nil {
		return ""
	}
	return string([]byte{byte(b)})
}

var (
	inBase64     = regexp.MustCompile(`[A-Za-z0-9+/_-]{16,}`)
	usualBase64  = strings.NewReplacer("-", "+", "_", "/")
	inHex        = regexp.MustCompile(`[0-9a-fA-F]{16,}`)
	inBytes      = regexp.MustCompile(`\b(?:(?:0x[0-9a-f]{1,2}|\d{1,3})(?:, ?| )){7,}(?:0x[0-9a-f]{1,2}|\d{1,3})`)
	inHexdump    = regexp.MustCompile(`\b[0-9a-f]{8}  ((?:[0-9a-f]{2}  ?){1,16})`)
	betweenBytes = regexp.MustCompile(`[, ]+`)
)

// fromBase64 decodes each run from each of its first four characters on, because the encoded text may begin in the middle of the run.
func fromBase64(text string) string {
	var out strings.Builder
	for _, run := range inBase64.FindAllString(text, -1) {
		run = usualBase64.Replace(run)
		for first := range 4 {
			rest := run[first:]
			decoded, err := base64.RawStdEncoding.DecodeString(rest[:len(rest)/4*4])
			if tail := rest[len(rest)/4*4:]; err == nil && len(tail) > 1 {
				end, _ := base64.RawStdEncoding.DecodeString(tail) // nil if it is not base64
				decoded = append(decoded, end...)
			}
			out.Write(append(decoded, '\n'))
		}
	}
	return out.String()
}

func fromHex(text string) string {
	var out strings.Builder
	for _, run := range inHex.FindAllString(text, -1) {
		for first := range 2 {
			rest := run[first:]
			decoded, _ := hex.DecodeString(rest[:len(rest)/2*2]) // cannot fail, because the run has only digits
			out.Write(append(decoded, '\n'))
		}
	}
	return out.String()
}

// fromBytes decodes slices of bytes as %v and %#v print them.
func fromBytes(text string) string {
	var out strings.Builder
	for _, run := range inBytes.FindAllString(text, -1) {
		for _, digits := range betweenBytes.Split(run, -1) {
			out.WriteString(number(digits, 0))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// fromHexdump joins the lines of hex.Dump's output. Lines that begin at offset 0 begin another dump.
func fromHexdump(text string) string {
	var out strings.Builder
	for _, line := range inHexdump.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(line[0], "00000000") {
			out.WriteByte('\n')
		}
		decoded, err := hex.DecodeString(strings.ReplaceAll(line[1], " ", ""))
		if err != nil {
			panic(fmt.Sprintf("not a hexdump: %q", line[0])) // the expression matches only hexadecimal digits
		}
		out.Write(decoded)
	}
	return out.String()
}
