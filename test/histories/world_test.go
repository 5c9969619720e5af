// SPDX-License-Identifier: Apache-2.0

package histories

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
	// lifetime is how many sequences a Cluster lives to see.
	lifetime = 5
	accounts = 1000
)

// plan is how much is to happen in a world.
type plan struct {
	sequences int
	until     time.Time // no sequence begins later; zero: any time
	parallel  int
	short     bool // lives of one sequence with few acts
}

// globe is a world that runs.
type globe struct {
	world
	*testing.T
	box    *sandbox.Sandbox
	client client.WithWatch
	audit  *auditLog // of the management cluster
	plan   plan

	restarting sync.Mutex // held by who restarts the manager

	mu       sync.Mutex
	begun    int // sequences
	lives    int
	settled  int
	failures []string
	counts   map[string]int
	writes   map[string]int  // by whom, in all sequences
	busiest  int             // writes of our manager to one object in loopSpan
	waited   []time.Duration // for a Cluster to settle
}

// inhabit runs a sandbox, and lives in it.
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
			g.box.KillManager() // it would first end the calls that are under way
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

// A person works on the portal's own pages, under the same account.
func personID(i int) string    { return fmt.Sprintf("person-%d", i) }
func personEmail(i int) string { return fmt.Sprintf("person-%d@portal.example", i) }

func email(i int) string    { return fmt.Sprintf("life-%d@portal.example", i) }
func password(i int) string { return fmt.Sprintf("password of life %d", i) }
func account(i int) string  { return fmt.Sprintf("account-%d", i) }

// length is how many sequences a life has here.
func (g *globe) length() int {
	if g.plan.short {
		return 1
	}
	return lifetime
}

// liveOnce lives one life, if there are sequences left for it.
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

// timeIsOver tells whether nothing is to begin any more.
func (g *globe) timeIsOver() bool { return !g.plan.until.IsZero() && time.Now().After(g.plan.until) }

// fail reports a life that went wrong, with all that is known of it.
func (g *globe) fail(l *life, err error) {
	text := fmt.Sprintf("%s seed %d sequence %d: %v", g, l.seed, l.sequence, err)
	g.mu.Lock()
	g.failures = append(g.failures, text)
	g.mu.Unlock()
	g.Errorf("%s\nagain: go test ./test/histories -run 'TestHistories/%s$' -seed %d -sequences %d\n%s",
		text, g, l.seed, l.sequence, l.told())
}

// judge looks at what does not belong to one life.
func (g *globe) judge() {
	if violations := g.box.Portal.Violations(); len(violations) > 0 {
		g.Errorf("%s: %d requests that the specification does not allow, such as: %s", g, len(violations), violations[0])
	}
	for _, name := range []string{"manager.log", "core.log"} {
		text, err := os.ReadFile(filepath.Join(g.box.Dir, name))
		if err != nil {
			g.Error(err)
		}
		if bytes.Contains(text, []byte("Observed a panic")) || bytes.Contains(text, []byte("DATA RACE")) {
			g.Errorf("%s: %s tells of a panic", g, name)
		}
	}
}

// count notes that something happened.
func (g *globe) count(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts[what]++
}

// enumerate lists how often there was what.
func enumerate(counts map[string]int) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, counts[what]))
	}
	return strings.Join(parts, ", ")
}

// report prints what happened in this world.
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

// restart ends the manager, as a crash or as a Deployment does, and starts it again after a pause. It reports false when
// another life is at it.
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
