// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestUserIDAfterARefusedLogin checks that a revoked password shows as soon as a login is refused, although the old token is valid for
// another hour, and that it stops showing after a successful login.
func TestUserIDAfterARefusedLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorman()
		c := newClient(t, testConfig(d))
		ask := func(refused bool) {
			t.Helper()
			id, err := c.UserID(t.Context())
			if refused != IsUnauthorized(err) || !refused && id != "user-1" {
				t.Errorf("%v after the start: %q, %v", time.Since(d.logins[0]), id, err)
			}
		}
		ask(false)
		time.Sleep(9 * time.Hour)
		ask(false) // the user id outlives the token
		if err := look(t, c); err != nil || len(d.logins) != 2 {
			t.Errorf("%d logins: %v", len(d.logins), err)
		}
		d.down = true
		d.revokeAll()
		if err := look(t, c); !IsUnavailable(err) {
			t.Fatal(err)
		}
		ask(false) // an outage is no verdict
		d.down = false
		time.Sleep(outageBackoff)
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		d.password = "changed"
		ask(false)
		time.Sleep(7*time.Hour + time.Second)
		if err := look(t, c); err != nil {
			t.Fatalf("the token must still be valid: %v", err)
		}
		ask(true)
		d.password = "pw"
		time.Sleep(2 * time.Minute)
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		ask(false)

		d.password = "changed"
		d.revokeAll()
		ask(false) // the client does not know the refusal yet
		if err := look(t, c); !IsUnauthorized(err) {
			t.Fatal(err)
		}
		ask(true)
		d.down = true
		time.Sleep(time.Hour)
		if id, err := c.UserID(t.Context()); !IsUnavailable(err) { // an outage does not hide the refusal
			t.Errorf("%q, %v", id, err)
		}
		d.down, d.password = false, "pw"
		time.Sleep(maxRefusalBackoff)
		ask(false)
	})
}

// TestObserveLogin checks that ObserveLogin is called only when a login ends.
func TestObserveLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorman()
		var ends []error
		config := testConfig(d)
		config.ObserveLogin = func(err error) { ends = append(ends, err) }
		c := newClient(t, config)
		for range 2 {
			if err := look(t, c); err != nil {
				t.Fatal(err)
			}
		}
		d.revokeAll()
		d.password = "changed"
		for range 2 { // the client refuses the second without asking the portal
			_ = look(t, c)
		}
		time.Sleep(time.Minute)
		d.down = true
		_ = look(t, c)
		if len(ends) != 3 || ends[0] != nil || !IsUnauthorized(ends[1]) || !IsUnavailable(ends[2]) {
			t.Errorf("%v", ends)
		}
	})
}
