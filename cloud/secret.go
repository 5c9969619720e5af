// SPDX-License-Identifier: Apache-2.0

package cloud

// secret holds a password, token or seed. It is a function because fmt, log libraries and encoders that walk a
// struct by reflection then find an address and not the text, also where they cannot call a method of ours.
type secret func() string

func conceal(text string) secret { return func() string { return text } }

// reveal gives the text; "" when there is none.
func (s secret) reveal() string {
	if s == nil {
		return ""
	}
	return s()
}
