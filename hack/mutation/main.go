// SPDX-License-Identifier: Apache-2.0

// Command mutation changes one operator of a package's source at a time, and runs the package's tests with the change. A mutant that no
// test notices has survived. The command compares the survivors with survivors.txt, which gives the reason why each may live. The checkout
// is not modified: the go command reads changed files as an overlay. One program holds nearly all mutants, and an environment variable
// switches one of them on (switchable.go). The other mutants, such as those of constants, are built one by one.
//
//	mutation [-root CHECKOUT] [-workers N] [-only SUBSTRING] [PACKAGE...]
//
// The command exists because the available tools do not change code that Go's coverage leaves out: the conditions of a switch's cases, and
// constants.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// The limits of a mutant's tests: a multiple of the CPU time that the unchanged tests take, and a larger multiple of that in wall-clock
// time for tests that wait and use no CPU, because other work may share the machine.
const (
	patience   = 4
	leastLimit = 4 * time.Second
	busyness   = 60
)

// target is a package to mutate.
type target struct {
	dir    string
	rounds [][]string // test arguments, the fast tests first
}

// slowInCloud are the tests that take most of the time, although most mutants are killed without them.
const slowInCloud = "TestHundredCallers|TestLostAnswers|TestNeighbour|TestRefresh$|" +
	"TestTierLearned|TestPoolIsBounded"

const slowInRateLimit = "TestMutationsGoBefore|TestPollsAreNotStarved|TestReadsAreNotStarved"

var targets = []target{
	{dir: "cloud", rounds: [][]string{{"-test.skip=" + slowInCloud}, {"-test.run=" + slowInCloud}}},
	{dir: "cloud/ratelimit", rounds: [][]string{{"-test.skip=" + slowInRateLimit}, {"-test.run=" + slowInRateLimit}}},
	// The random histories are the same for each mutant, and rapid spends no time on shrinking a failing one.
	{dir: "controllers/claims", rounds: [][]string{{"-rapid.seed=1", "-rapid.shrinktime=0s", "-rapid.nofailfile"}}},
}

var (
	root    = flag.String("root", ".", "the checkout")
	workers = flag.Int("workers", 2, "how many mutants to try at a time")
	only    = flag.String("only", "", "try only the mutants whose name contains this")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	checkout, err := filepath.Abs(*root)
	if err != nil {
		log.Fatal(err)
	}
	explained, err := readExplained(filepath.Join(checkout, "hack/mutation/survivors.txt"))
	if err != nil {
		log.Fatal(err)
	}
	ok := true
	for _, t := range targets {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), t.dir) {
			continue
		}
		r, err := t.run(checkout)
		if err != nil {
			log.Fatalf("%s: %v", t.dir, err)
		}
		ok = r.report(t.dir, explained) && ok
	}
	if !ok {
		os.Exit(1)
	}
}

// result counts the fates of a package's mutants, and names the survivors.
type result struct {
	counts    map[fate]int
	survivors map[string]int // by name: two changes may make the same line
	lines     map[string]int
	took      time.Duration
}

func (t target) run(checkout string) (result, error) {
	began := time.Now()
	scratch, err := os.MkdirTemp("", "mutation-")
	if err != nil {
		return result{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	l := &laboratory{root: checkout, target: t, scratch: scratch}
	if l.sources, err = sources(checkout, t.dir); err != nil {
		return result{}, err
	}
	if err := l.prepare(); err != nil {
		return result{}, err
	}
	r := result{counts: map[fate]int{}, survivors: map[string]int{}, lines: map[string]int{}}
	err = l.tryAll(&r)
	r.took = time.Since(began)
	return r, err
}

// tryAll shares the mutants among the workers.
func (l *laboratory) tryAll(r *result) error {
	type trial struct {
		*source
		*mutant
	}
	var mu sync.Mutex
	var problems []error
	queue := make(chan trial)
	var group sync.WaitGroup
	for worker := range *workers {
		group.Go(func() {
			for next := range queue {
				became, err := l.try(worker, next.source, next.mutant)
				mu.Lock()
				problems = append(problems, err)
				r.add(next.mutant, became)
				mu.Unlock()
			}
		})
	}
	for _, s := range l.sources {
		for _, at := range s.sites {
			for _, m := range at.mutants {
				if strings.Contains(m.name, *only) {
					queue <- trial{s, m}
				}
			}
		}
	}
	close(queue)
	group.Wait()
	return errors.Join(problems...)
}

func (r *result) add(m *mutant, became fate) {
	r.counts[became]++
	switch became {
	case survived:
		r.survivors[m.name]++
		r.lines[m.name] = m.site.line
		fmt.Printf("survived, line %d: %s\n", m.site.line, m.name)
	case hung:
		fmt.Printf("did not end, line %d: %s\n", m.site.line, m.name)
	}
}
