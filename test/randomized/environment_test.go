// SPDX-License-Identifier: Apache-2.0

package randomized

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
	"github.com/capportal/cluster-api-provider-portal/test/suite"
)

const (
	// lifetime is the number of sequences in a life.
	lifetime = 5
	accounts = 1000
)

// plan says how many sequences to run in an environment.
type plan struct {
	sequences int
	until     time.Time // no sequence begins later, zero if there is no limit
	parallel  int
	short     bool // lives have one sequence with two acts
}

// environment is a sandbox with one behavior of the portal and the lives in it.
type environment struct {
	behavior
	*testing.T
	box    *sandbox.Sandbox
	client client.WithWatch
	plan   plan

	restarting sync.Mutex // held by the life that restarts the manager

	mu       sync.Mutex
	started  time.Time // when the present manager was started
	begun    int       // sequences
	lives    int
	settled  int
	failures []string
	counts   map[string]int
	waited   []time.Duration // how long each Cluster took to settle
}

// runIn starts a sandbox and runs lives in it.
func runIn(t *testing.T, b behavior, p plan) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer context.AfterFunc(interrupted, cancel)()
	e := &environment{behavior: b, T: t, plan: p, counts: map[string]int{}}
	var err error
	startCtx, started := context.WithTimeout(ctx, 10*time.Minute)
	defer started()
	if e.box, err = sandbox.Start(startCtx, e.options()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if interrupted.Err() != nil {
			e.box.KillManager() // a manager that is stopped finishes its calls first
		}
		if err := e.box.Close(); err != nil {
			t.Error(err)
		}
	}()
	config := rest.CopyConfig(e.box.Config)
	config.UserAgent = testAgent
	if e.client, err = client.NewWithWatch(config, client.Options{Scheme: e.box.Client.Scheme()}); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	var people sync.WaitGroup
	for range min(p.parallel, 1+(p.sequences-1)/e.length()) {
		people.Go(func() {
			for e.liveOnce(ctx) {
			}
		})
	}
	people.Wait()
	e.judge()
	e.report(time.Since(begin))
}

func (e *environment) options() sandbox.Options {
	options := sandbox.Options{}
	if *keepIn != "" {
		options.Dir = filepath.Join(*keepIn, e.String())
	}
	options.Portal = emulator.Options{
		VictimOrder: e.victims, UpgradeStyle: e.upgrade, ProviderIDs: e.providerIDs, ReuseNodeNames: e.reuseNames,
		Seed: *firstSeed,
		Durations: emulator.Durations{
			Pending: 50 * time.Millisecond, Create: time.Second, Scale: 500 * time.Millisecond,
			Upgrade: 2 * time.Second, Delete: 500 * time.Millisecond,
		},
	}
	options.Portal.Users = suite.NewAccounts(accounts, "life", person).Users()
	return options
}

// A person works on the portal's own pages with a user of the same account. testAgent is the user agent of this package's requests.
const person, testAgent = "person", "histories"

// length returns how many sequences a life has in this environment.
func (e *environment) length() int {
	if e.plan.short {
		return 1
	}
	return lifetime
}

// liveOnce runs one life. It reports false if the plan has no sequences or no time left.
func (e *environment) liveOnce(ctx context.Context) bool {
	e.mu.Lock()
	left := min(e.length(), e.plan.sequences-e.begun)
	if left <= 0 || e.lives >= e.plan.parallel && e.timeIsOver() || ctx.Err() != nil || e.lives == accounts {
		e.mu.Unlock()
		return false
	}
	e.begun += left
	number := e.lives
	e.lives++
	e.mu.Unlock()

	l := newLife(e, number, *firstSeed+int64(number))
	if err := l.live(ctx, left); err != nil && ctx.Err() == nil {
		e.fail(l, err)
	}
	return true
}

// timeIsOver reports whether no further life or sequence may begin.
func (e *environment) timeIsOver() bool {
	return !e.plan.until.IsZero() && time.Now().After(e.plan.until)
}

// fail reports a failed life with its history and the command that repeats it.
func (e *environment) fail(l *life, err error) {
	text := fmt.Sprintf("%s seed %d sequence %d: %v", e, l.seed, l.sequence, err)
	e.mu.Lock()
	e.failures = append(e.failures, text)
	e.mu.Unlock()
	e.Errorf("%s\nagain: go test ./test/randomized -run 'TestHistories/%s$' -seed %d -sequences %d\n%s",
		text, e, l.seed, l.sequence, l.history())
}

// judge checks what does not belong to one life: requests that the specification forbids, panics and data races.
func (e *environment) judge() {
	if violations := e.box.Portal.Violations(); len(violations) > 0 {
		e.Errorf("%s: %d requests violate the specification, the first: %s", e, len(violations), violations[0])
	}
	for _, name := range []string{"manager.log", "core.log"} {
		text, err := os.ReadFile(filepath.Join(e.box.Dir, name))
		if err != nil {
			e.Error(err)
		}
		if bytes.Contains(text, []byte("Observed a panic")) || bytes.Contains(text, []byte("DATA RACE")) {
			e.Errorf("%s: %s has a panic or a data race", e, name)
		}
	}
}

// count adds one to a counter of the report.
func (e *environment) count(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts[what]++
}

// enumerate formats counters, sorted by name.
func enumerate(counts map[string]int) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, counts[what]))
	}
	return strings.Join(parts, ", ")
}

// report prints a summary of this environment.
func (e *environment) report(took time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	slices.Sort(e.waited)
	fmt.Printf("== %s: %d sequences settled in %d lives (seeds %d to %d), %d failures, %s\n",
		e, e.settled, e.lives, *firstSeed, *firstSeed+int64(e.lives)-1, len(e.failures), took.Round(time.Second))
	if n := len(e.waited); n > 0 {
		fmt.Printf("   settled after: median %s, longest %s\n", e.waited[n/2].Round(time.Second), e.waited[n-1].Round(time.Second))
	}
	fmt.Println("   happened: " + enumerate(e.counts))
	for _, failure := range e.failures {
		fmt.Println("   FAILED " + strings.SplitN(failure, "\n", 2)[0])
	}
}

// restart ends the manager, as a crash or a Deployment does, and starts it again after a pause. It reports false if another
// life is restarting it.
func (e *environment) restart(ctx context.Context, end func(), pause time.Duration) (bool, error) {
	if !e.restarting.TryLock() {
		return false, nil
	}
	defer e.restarting.Unlock()
	end()
	time.Sleep(pause)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	e.mu.Lock()
	e.started = time.Now()
	e.mu.Unlock()
	return true, e.box.StartManager(ctx)
}

// startedSince reports whether the manager was started since then. A new manager waits again until it believes a change that a person made
// at the portal.
func (e *environment) startedSince(then time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.started.After(then)
}
