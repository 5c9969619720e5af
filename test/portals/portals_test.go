// SPDX-License-Identifier: Apache-2.0

package portals

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capportal/cluster-api-provider-portal/cloud"
	"github.com/capportal/cluster-api-provider-portal/cloud/emulator"
)

var (
	lives = flag.Int("lives", 100, "how many random portals to live at")
	first = flag.Int64("seed", 1, "seed of the first of them; the others follow")
	only  = flag.Int64("only", 0, "live at the portal of this seed only, and print each step")
)

// workers run the lives in parallel, so that one process uses all cores.
const workers = 8

// TestRandomPortals checks the life of one cluster at each random portal.
func TestRandomPortals(t *testing.T) {
	if *only != 0 {
		report(t, *only, liveAt(t, *only), true)
		return
	}
	struck := &tally{counts: map[string]int{}}
	for w := range workers {
		t.Run(fmt.Sprintf("worker-%d", w), func(t *testing.T) {
			t.Parallel()
			for n := int64(w); n < int64(*lives); n += workers {
				ended := liveAt(t, *first+n)
				struck.add(ended.struck)
				report(t, *first+n, ended, false)
			}
		})
	}
	t.Cleanup(func() { struck.check(t, *lives) })
}

// tally counts the causes that struck, over all lives.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (s *tally) add(names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.counts[name]++
	}
}

// check fails the test if a cause never struck, because then no life has tested it.
func (s *tally) check(t *testing.T, lives int) {
	for _, c := range causes {
		if s.counts[c.name] == 0 && lives >= 1000 {
			t.Errorf("no life met %q", c.name)
		}
	}
	t.Logf("%d lives; causes that struck: %v", lives, s.counts)
}

// ended is the result of a life.
type ended struct {
	struck   []string // causes
	problems []string
	story    string
}

// report fails the test if the life had a problem.
func report(t *testing.T, seed64 int64, life ended, verbose bool) {
	t.Helper()
	if len(life.problems) > 0 || verbose {
		t.Logf("seed %d:\n%s", seed64, life.story)
	}
	for _, p := range life.problems {
		t.Errorf("seed %d: %s (again: go test ./test/portals -only %d -v)", seed64, p, seed64)
	}
}

// liveAt runs the life at the portal of a seed.
func liveAt(t *testing.T, seed64 int64) (life ended) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(uint64(seed64), 0))
		options := legalPortal(r, seed64)
		portal, err := emulator.New(options)
		if err != nil {
			t.Fatalf("seed %d: %v", seed64, err)
		}
		defer portal.Close()
		o := newOperator(t, portal, options)
		o.impatient = once(r, 2)
		for n := range r.IntN(9) {
			injected, err := causes[r.IntN(len(causes))].inject(r, portal, n)
			if err != nil {
				t.Fatalf("seed %d: %v", seed64, err)
			}
			o.logf("%s", injected)
		}
		life.problems = o.problems(o.live())
		life.struck = struckBy(portal)
		if len(life.problems) > 0 || *only != 0 {
			life.story = fmt.Sprintf("%+v\n%s\n%s", options, strings.Join(o.story, "\n"), requests(portal))
		}
	})
	return life
}

func newOperator(t *testing.T, portal *emulator.Portal, options emulator.Options) *operator {
	t.Helper()
	client, err := cloud.New(cloud.Config{
		BaseURL: "https://portal.example" + options.BasePath, Email: email, Password: password,
		TOTPSeed: options.Users[0].TOTPSeed, Transport: portal.Transport(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &operator{ctx: t.Context(), portal: portal, client: client, judge: newJudge(portal), began: time.Now(), versions: oldestFirst(portal), ended: map[string]bool{}}
}

// problems returns what is wrong with a finished life.
func (o *operator) problems(ended error) []string {
	problems := o.judge.fails
	if ended != nil {
		problems = append(problems, ended.Error())
	}
	for _, name := range duplicates(o.portal) {
		problems = append(problems, "a second cluster was created: "+name)
	}
	if left := o.portal.Clusters(); len(left) > 0 {
		problems = append(problems, fmt.Sprintf("%d clusters are left", len(left)))
	}
	for _, e := range o.portal.Violations() {
		if e.Method != "GET" || !strings.HasSuffix(e.Path, "/kubernetes-clusters") {
			problems = append(problems, "the client broke the specification: "+e.String())
		}
	}
	return problems
}

func oldestFirst(p *emulator.Portal) (ids []string) {
	versions := p.Versions()
	slices.SortFunc(versions, func(a, b emulator.Version) int { return strings.Compare(a.SemanticVersion, b.SemanticVersion) })
	for _, v := range versions {
		ids = append(ids, v.ID)
	}
	return ids
}

func struckBy(p *emulator.Portal) (names []string) {
	seen := map[string]bool{}
	for _, f := range p.Faults() {
		if f.Hits > 0 || f.Fault.OthersPerMinute > 0 {
			if c := causeOf(f.Fault.ID); !seen[c.name] {
				seen[c.name] = true
				names = append(names, c.name)
			}
		}
	}
	return names
}

func requests(p *emulator.Portal) string {
	var b strings.Builder
	for _, e := range p.RequestLog() {
		if e.IsRequest() {
			fmt.Fprintf(&b, "%s %s\n", e.Time.Format("15:04:05"), e)
		}
	}
	return b.String()
}
