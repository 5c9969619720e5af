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
)

const (
	// lifetime is the number of sequences in a life.
	lifetime = 5
	accounts = 1000
)

// plan says how many sequences to run in a world.
type plan struct {
	sequences int
	until     time.Time // no sequence begins later; zero: no limit
	parallel  int
	short     bool // lives have one sequence with two acts
}

// globe is a running world: a sandbox and the lives in it.
type globe struct {
	world
	*testing.T
	box    *sandbox.Sandbox
	client client.WithWatch
	audit  *auditLog // of the management cluster
	plan   plan

	restarting sync.Mutex // held by the life that restarts the manager

	mu       sync.Mutex
	begun    int // sequences
	lives    int
	settled  int
	failures []string
	counts   map[string]int
	writes   map[string]int  // writes by client in all sequences
	busiest  int             // most writes of our manager to one object within loopSpan
	waited   []time.Duration // how long each Cluster took to settle
}

// inhabit starts a sandbox and runs lives in it.
func inhabit(t *testing.T, w world, p plan) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer context.AfterFunc(interrupted, cancel)()
	g := &globe{world: w, T: t, plan: p, counts: map[string]int{}, writes: map[string]int{}}
	var err error
	startCtx, started := context.WithTimeout(ctx, 5*time.Minute)
	defer started()
	if g.box, err = sandbox.Start(startCtx, g.options()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if interrupted.Err() != nil {
			g.box.KillManager() // a manager that is stopped finishes its calls first
		}
		if err := g.box.Close(); err != nil {
			t.Error(err)
		}
	}()
	config := rest.CopyConfig(g.box.Config)
	config.UserAgent = testAgent
	if g.client, err = client.NewWithWatch(config, client.Options{Scheme: g.box.Client.Scheme()}); err != nil {
		t.Fatal(err)
	}
	g.audit = &auditLog{path: g.box.AuditLog(), apart: true}
	begin := time.Now()
	var people sync.WaitGroup
	for range min(p.parallel, 1+(p.sequences-1)/g.length()) {
		people.Go(func() {
			for g.liveOnce(ctx) {
			}
		})
	}
	people.Wait()
	g.judge()
	g.report(time.Since(begin))
}

func (g *globe) options() sandbox.Options {
	options := sandbox.Options{AuditPolicy: []byte(managementPolicy), WorkloadAuditPolicy: []byte(workloadPolicy)}
	if *keepIn != "" {
		options.Dir = filepath.Join(*keepIn, g.String())
	}
	options.Portal = emulator.Options{
		VictimOrder: g.victims, UpgradeStyle: g.upgrade, ProviderIDs: g.providerIDs, ReuseNodeNames: g.reuseNames,
		Seed: *firstSeed,
		Durations: emulator.Durations{
			Pending: 50 * time.Millisecond, Create: time.Second, Scale: 500 * time.Millisecond,
			Upgrade: 2 * time.Second, Delete: 500 * time.Millisecond,
		},
	}
	for i := range accounts {
		options.Portal.Users = append(options.Portal.Users, emulator.User{
			ID: fmt.Sprintf("user-%d", i), Email: email(i), Password: password(i), Account: account(i), Role: emulator.RoleAdministrator,
		}, emulator.User{
			ID: personID(i), Email: personEmail(i), Password: password(i), Account: account(i), Role: emulator.RoleAdministrator,
		})
	}
	return options
}

// A person works on the portal's own pages with a user of the same account.
func personID(i int) string    { return fmt.Sprintf("person-%d", i) }
func personEmail(i int) string { return fmt.Sprintf("person-%d@portal.example", i) }

func email(i int) string    { return fmt.Sprintf("life-%d@portal.example", i) }
func password(i int) string { return fmt.Sprintf("password of life %d", i) }
func account(i int) string  { return fmt.Sprintf("account-%d", i) }

// length returns how many sequences a life has in this world.
func (g *globe) length() int {
	if g.plan.short {
		return 1
	}
	return lifetime
}

// liveOnce runs one life. It reports false if the plan has no sequences or no time left.
func (g *globe) liveOnce(ctx context.Context) bool {
	g.mu.Lock()
	left := min(g.length(), g.plan.sequences-g.begun)
	if left <= 0 || g.lives >= g.plan.parallel && g.timeIsOver() || ctx.Err() != nil || g.lives == accounts {
		g.mu.Unlock()
		return false
	}
	g.begun += left
	number := g.lives
	g.lives++
	g.mu.Unlock()

	l := newLife(g, number, *firstSeed+int64(number))
	if err := l.live(ctx, left); err != nil && ctx.Err() == nil {
		g.fail(l, err)
	}
	return true
}

// timeIsOver reports whether no further life or sequence may begin.
func (g *globe) timeIsOver() bool { return !g.plan.until.IsZero() && time.Now().After(g.plan.until) }

// fail reports a failed life with its history and the command that repeats it.
func (g *globe) fail(l *life, err error) {
	text := fmt.Sprintf("%s seed %d sequence %d: %v", g, l.seed, l.sequence, err)
	g.mu.Lock()
	g.failures = append(g.failures, text)
	g.mu.Unlock()
	g.Errorf("%s\nagain: go test ./test/randomized -run 'TestHistories/%s$' -seed %d -sequences %d\n%s",
		text, g, l.seed, l.sequence, l.told())
}

// judge checks what does not belong to one life: requests that the specification forbids, panics and data races.
func (g *globe) judge() {
	if violations := g.box.Portal.Violations(); len(violations) > 0 {
		g.Errorf("%s: %d requests violate the specification, the first: %s", g, len(violations), violations[0])
	}
	for _, name := range []string{"manager.log", "core.log"} {
		text, err := os.ReadFile(filepath.Join(g.box.Dir, name))
		if err != nil {
			g.Error(err)
		}
		if bytes.Contains(text, []byte("Observed a panic")) || bytes.Contains(text, []byte("DATA RACE")) {
			g.Errorf("%s: %s has a panic or a data race", g, name)
		}
	}
}

// count adds one to a counter of the report.
func (g *globe) count(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts[what]++
}

// enumerate formats counters, sorted by name.
func enumerate(counts map[string]int) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, counts[what]))
	}
	return strings.Join(parts, ", ")
}

// report prints a summary of this world.
func (g *globe) report(took time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.Sort(g.waited)
	fmt.Printf("== %s: %d sequences settled in %d lives (seeds %d to %d), %d failures, %s\n",
		g, g.settled, g.lives, *firstSeed, *firstSeed+int64(g.lives)-1, len(g.failures), took.Round(time.Second))
	if n := len(g.waited); n > 0 {
		fmt.Printf("   settled after: median %s, longest %s\n", g.waited[n/2].Round(time.Second), g.waited[n-1].Round(time.Second))
	}
	fmt.Println("   happened: " + enumerate(g.counts))
	fmt.Printf("   written: %s; by the provider at most %d times to one object in %s\n", enumerate(g.writes), g.busiest, loopSpan)
	for _, failure := range g.failures {
		fmt.Println("   FAILED " + strings.SplitN(failure, "\n", 2)[0])
	}
}

// restart ends the manager, as a crash or a Deployment does, and starts it again after a pause. It reports false if another
// life is restarting it.
func (g *globe) restart(ctx context.Context, end func(), pause time.Duration) (bool, error) {
	if !g.restarting.TryLock() {
		return false, nil
	}
	defer g.restarting.Unlock()
	end()
	time.Sleep(pause)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return true, g.box.StartManager(ctx)
}
