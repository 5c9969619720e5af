// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"os"
	"testing"
)

// Nightly skips the test unless PORTAL_TEST_NIGHTLY is set, as make nightly does. It is for tests that show on real servers what a faster test
// checks too. The comment of such a test names the faster one, and says what the real servers add.
func Nightly(t *testing.T) {
	t.Helper()
	if !AtNight() {
		t.Skip("only the night runs this test, or PORTAL_TEST_NIGHTLY=1")
	}
}

// AtNight reports whether the tests that call Nightly run.
func AtNight() bool { return os.Getenv("PORTAL_TEST_NIGHTLY") != "" }

// Long skips the test with go test's -short. make test sets it: it runs three stories, and make test-suites runs all.
func Long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-suites runs this test")
	}
}
