// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestBackoffGrows: 30 s, then twice as long each time up to 10 min, with up to a fifth more. The message stays the same.
func TestBackoffGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Backoff
		if _, found := b.Recall("k", "a"); found {
			t.Fatal("recalls what was never refused")
		}
		refusal := StallFor(0, "Wrong", "correct it")
		for _, delay := range []time.Duration{30, 60, 120, 240, 480, 600, 600} {
			delay *= time.Second
			o := b.Refuse("k", "a", refusal)
			if o.Kind != Stalled || o.Reason != "Wrong" || o.Message != "correct it" {
				t.Fatalf("other words: %+v", o)
			}
			if o.RequeueAfter < delay || o.RequeueAfter > delay+delay/5 {
				t.Errorf("%s, want %s and up to a fifth more", o.RequeueAfter, delay)
			}
			time.Sleep(o.RequeueAfter - time.Millisecond)
			again, found := b.Recall("k", "a")
			if !found || again.RequeueAfter != time.Millisecond || again.Reason != "Wrong" {
				t.Errorf("a moment before its time: %v, %+v", found, again)
			}
			time.Sleep(time.Millisecond)
			if _, found := b.Recall("k", "a"); found {
				t.Error("still refused when its time has come")
			}
		}
	})
}

// TestBackoffDo: a refused attempt is not made again before its time, and a success starts over. A wait for the rate limit is no refusal.
func TestBackoffDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Backoff
		asked := 0
		do := func(o Outcome) Outcome {
			return b.Do("k", "a", func() Outcome { asked++; return o })
		}
		refusal := StallFor(0, "Wrong", "correct it")
		if first, again := do(refusal), do(Outcome{}); asked != 1 || again.Message != refusal.Message || again.RequeueAfter != first.RequeueAfter {
			t.Errorf("asked %d times: %+v", asked, again)
		}
		time.Sleep(firstRetry + firstRetry/5)
		if o := do(RetryAfter(time.Second)); asked != 2 || o.Kind != Retry || o.RequeueAfter != time.Second {
			t.Errorf("asked %d times: %+v", asked, o)
		}
		if o := do(Outcome{}); asked != 3 || !o.IsDone() {
			t.Errorf("asked %d times: %+v", asked, o)
		}
		if o := do(refusal); asked != 4 || o.RequeueAfter > firstRetry+firstRetry/5 {
			t.Errorf("asked %d times: %+v", asked, o)
		}
	})
}

// TestBackoffKeepsTheRequestID: refusals in the same words keep the id of the first of them, so that the condition stays as it is. Other
// words, or another attempt, have an id of their own.
func TestBackoffKeepsTheRequestID(t *testing.T) {
	var b Backoff
	for _, refusal := range []struct{ attempt, message, want string }{
		{"a", "no room (requestId r-1). Wait", "no room (requestId r-1). Wait"},
		{"a", "no room (requestId r-2). Wait", "no room (requestId r-1). Wait"},
		{"a", "no quota (requestId r-3). Wait", "no quota (requestId r-3). Wait"},
		{"a", "no room (requestId r-4). Wait", "no room (requestId r-4). Wait"},
		{"b", "no room (requestId r-5). Wait", "no room (requestId r-5). Wait"},
	} {
		o := b.Refuse("k", refusal.attempt, StallFor(0, "Wrong", "%s", refusal.message))
		recalled, _ := b.Recall("k", refusal.attempt)
		if o.Message != refusal.want || recalled.Message != refusal.want {
			t.Errorf("%q: %q, later %q, want %q", refusal.message, o.Message, recalled.Message, refusal.want)
		}
	}
}

// TestBackoffStartsOver: another attempt, or another key, does not wait for the refused one, and its delay starts over. So does that of an attempt
// that is forgotten, or was refused long ago.
func TestBackoffStartsOver(t *testing.T) {
	for title, test := range map[string]struct {
		key, attempt string
		before       func(*Backoff)
	}{
		"another attempt": {"k", "another", func(*Backoff) {}},
		"another key":     {"another", "a", func(*Backoff) {}},
		"forgotten":       {"k", "a", func(b *Backoff) { b.Forget("k") }},
		"long ago":        {"k", "a", func(*Backoff) { time.Sleep(lastRetry + lastRetry/5 + forgetAt + time.Second) }},
	} {
		t.Run(title, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b Backoff
				for range 100 {
					b.Refuse("k", "a", StallFor(0, "Wrong", ""))
				}
				test.before(&b)
				if _, found := b.Recall(test.key, test.attempt); found {
					t.Error("it has to wait")
				}
				if o := b.Refuse(test.key, test.attempt, StallFor(0, "Wrong", "")); o.RequeueAfter > firstRetry+firstRetry/5 {
					t.Errorf("it starts at %s", o.RequeueAfter)
				}
			})
		})
	}
}

// TestBackoffKeepsLongerTimes: the portal may ask for more patience than ours.
func TestBackoffKeepsLongerTimes(t *testing.T) {
	var b Backoff
	if o := b.Refuse("k", "a", WaitFor(time.Hour, "Down", "")); o.RequeueAfter != time.Hour {
		t.Errorf("after %s, want the hour that the portal asked for", o.RequeueAfter)
	}
}

// TestBackoffSpreads: objects that were refused together do not come back together.
func TestBackoffSpreads(t *testing.T) {
	var b Backoff
	var times []time.Duration
	for i := range 200 {
		times = append(times, b.Refuse(string(rune('a'+i)), "a", StallFor(0, "Wrong", "")).RequeueAfter)
	}
	if spread := slices.Max(times) - slices.Min(times); spread < 3*time.Second {
		t.Errorf("200 refusals come back within %s", spread)
	}
}
