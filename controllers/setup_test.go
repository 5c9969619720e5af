// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"strconv"
	"testing"

	"github.com/capportal/cluster-api-provider-portal/cloud/ratelimit"
)

// TestLimiters checks that the account's part and the number of open mutations get from the options to the limiter.
func TestLimiters(t *testing.T) {
	g := ratelimit.NewLimiter(Options{AccountShare: 0.25, MaxOpenMutations: 2}.limiters(nil))
	if stats := g.Stats(); stats.Share != 0.25 || stats.Tokens != 45.0/4 {
		t.Errorf("with a quarter of the account: %+v", stats)
	}
	for i := range 3 {
		if _, err := g.Reserve(strconv.Itoa(i), ratelimit.Creation); (err == nil) != (i < 2) {
			t.Errorf("creation %d: %v", i, err)
		}
	}
}
