// SPDX-License-Identifier: Apache-2.0

package world

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	lives   = flag.Int("lives", 4, "how many drawn lives to live")
	first   = flag.Uint64("seed", 1, "seed of the first of them; the others follow")
	howLong = flag.Duration("for", 0, "how long to live drawn lives, instead of a number of them")
	only    = flag.Uint64("only", 0, "live the life of this seed only, in this process")
	drop    = flag.String("drop", "", "what that life leaves out, with commas: numbers of steps, "+
		"the numbers of troubles as t0, and portal, network, ties, health, stale, pauses, crashes")
)

// TestLives lives drawn lives. A life that goes wrong is shortened, and printed as a test.
func TestLives(t *testing.T) {
	if *only != 0 {
		liveOne(t, without(drawPlan(*only), *drop))
		return
	}
	step := 1
	if *howLong > 0 {
		step = runtime.NumCPU() // as many processes share the seeds (TestMain)
	}
	for n, began := 0, time.Now(); *howLong == 0 && n < *lives || time.Since(began) < *howLong; n += step {
		judgeChild(t, *first+uint64(n))
	}
}

// liveOne lives a life, and fails the test with what the judges say.
func liveOne(t *testing.T, p plan) {
	t.Logf("%s", p)
	seeded(t, Options{Seed: p.Seed, Portal: p.Portal, Faults: p.Faults, CIDR: p.CIDR, Ties: p.Ties}, func(w *World) {
		for _, wrong := range w.live(p).judge.wrongs {
			t.Errorf("WRONG %s", wrong)
		}
	})
}

func judgeChild(t *testing.T, seed uint64) {
	began := time.Now()
	output, verdict := child(seed, "")
	if verdict == "" {
		t.Logf("seed %d: settled and ended, %s", seed, time.Since(began).Round(time.Second))
		return
	}
	left, tries := shorten(seed, verdict)
	t.Errorf("seed %d: %s\n%s\nshortened in %d tries, "+
		"again: go -C test/world test . -vet=off -run TestLives -v -only %d -drop '%s'\n%s", seed, verdict, output, tries, seed,
		left, without(drawPlan(seed), left))
}

// child lives a life in a process of its own, and returns its output and its first violation. The violation is empty if there is none.
func child(seed uint64, drop string) (output, verdict string) {
	command := exec.Command(os.Args[0], "-test.run", "^TestLives$", "-test.timeout", "10m", "-test.v", "-only", fmt.Sprint(seed), "-drop", drop)
	content, err := command.CombinedOutput()
	output = string(content)
	if err == nil {
		return output, ""
	}
	lines := strings.Split(output, "\n")
	i := slices.IndexFunc(lines, func(line string) bool {
		return strings.Contains(line, "WRONG ") || strings.Contains(line, "not within")
	})
	if i < 0 {
		return output, "it ended in another way: " + err.Error()
	}
	_, verdict, _ = strings.Cut(lines[i], "WRONG ")
	if verdict == "" {
		_, verdict, _ = strings.Cut(lines[i], "not within")
		verdict = "stuck: not within" + verdict
	}
	return output, verdict
}

// maxTries bounds how often a life is lived again to shorten it.
const maxTries = 24

// shorten leaves out of a life, one by one, what it does not need to go wrong by the same rule.
func shorten(seed uint64, verdict string) (drop string, tries int) {
	rule, _, _ := strings.Cut(verdict, ":")
	var dropped []string
	for _, part := range drawPlan(seed).parts() {
		if tries++; tries > maxTries {
			break
		}
		without := strings.Join(append(slices.Clone(dropped), part), ",")
		if _, again := child(seed, without); strings.HasPrefix(again, rule+":") {
			dropped = append(dropped, part)
		}
	}
	return strings.Join(dropped, ","), min(tries, maxTries)
}
