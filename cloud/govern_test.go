// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestGateClosesOverATicket checks what becomes of a call whose ticket was granted before a 429 closed the gate. A client
// that may wait sends it when the gate is open again. Any other returns when to come back, and leaves no place in the queue.
func TestGateClosesOverATicket(t *testing.T) {
	for _, wait := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			config := testConfig(answersWith(200, `{"versions":[]}`))
			config.Wait = wait
			config.Governor = NewGovernor(GovernorOptions{})
			c := newClient(t, config)
			if err := look(t, c); err != nil {
				t.Fatal(err)
			}
			ticket := granted(t, config.Governor, "cluster", Read)
			send(t, config.Governor, granted(t, config.Governor, "another", Read), 429, "Retry-After", "10")
			opens := config.Governor.Stats().ClosedTo
			_, err := c.KubernetesVersions(WithTicket(t.Context(), ticket))
			if wait {
				if err != nil || time.Now().Before(opens) {
					t.Errorf("a client that may wait called before the gate opened: %t, %v", time.Now().Before(opens), err)
				}
				return
			}
			at, ok := RetryAt(err)
			if !IsRateLimited(err) || !ok || !at.Equal(opens) {
				t.Errorf("told to come back at %v, the gate opens at %v: %v", at, opens, err)
			}
			if n := config.Governor.Stats().Waiting[Read]; n != 0 {
				t.Errorf("%d places are left in the queue", n)
			}
		})
	}
}
