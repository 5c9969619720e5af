// SPDX-License-Identifier: Apache-2.0

package ownerref

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAwaited checks how long an object waits for its owner: never when it is being deleted, and never longer than linkTime.
func TestAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for title, test := range map[string]struct {
			created  time.Time
			deleting bool
			owned    bool
			want     time.Duration
		}{
			"new":                       {now, false, false, linkTime},
			"a moment later":            {now.Add(-time.Second), false, false, linkTime - time.Second},
			"old":                       {now.Add(-time.Hour), false, false, 0},
			"the server's clock is off": {now.Add(time.Hour), false, false, linkTime},
			"no time":                   {time.Time{}, false, false, 0},
			"being deleted":             {now, true, false, 0},
			"it has one":                {now, false, true, 0},
		} {
			obj := &metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(test.created)}
			if test.deleting {
				obj.DeletionTimestamp = &obj.CreationTimestamp
			}
			if got := Awaited(obj, test.owned); got != test.want {
				t.Errorf("%s: %v, want %v", title, got, test.want)
			}
		}
	})
}
