// SPDX-License-Identifier: Apache-2.0

package emulator

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestOldSessionsAreForgotten logs in again and again for a week, as a client does that keeps no token. The portal remembers the tokens of the
// last days only, and those still count as expired.
func TestOldSessionsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		email, _ := p.Credentials()
		var last *session
		const hourly = 600
		for range 7 * 24 * hourly {
			p.mu.Lock()
			last = p.openSession(p.users[email], false, p.now())
			p.mu.Unlock()
			time.Sleep(time.Hour / hourly)
		}
		lifetime := int((p.opts.TokenLifetime + sessionMemory).Hours())
		if kept := len(p.sessions); kept < lifetime*hourly || kept > 3*lifetime*hourly {
			t.Errorf("%d sessions are kept", kept)
		}
		if p.sessions[last.id] != last {
			t.Error("the last session is forgotten")
		}
	})
}
