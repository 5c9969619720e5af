// SPDX-License-Identifier: Apache-2.0

package removal

import "testing"

// TestHexadecimalNames checks that names with the time of creation in hexadecimal digits sort by it.
func TestHexadecimalNames(t *testing.T) {
	for _, pair := range [][2]string{{"c-node-18f9a4b2c5d", "c-node-18fa04b2c5d"}, {"c-node-9", "c-node-10"}, {"c-18f10a", "c-18f9ab"}} {
		if ByName.Compare(NodeSnapshot{Name: pair[0]}, NodeSnapshot{Name: pair[1]}) >= 0 {
			t.Errorf("%s is not older than %s", pair[0], pair[1])
		}
	}
}
