// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// readExplained reads the survivors' file. Each line has a mutant's name, two number signs, and the reason why the mutant may live.
func readExplained(name string) (map[string]string, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	explained := map[string]string{}
	var problems []error
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		mutant, why, _ := strings.Cut(line, " ## ")
		if strings.TrimSpace(why) == "" {
			problems = append(problems, fmt.Errorf("%s: no reason in %q", name, line))
		}
		explained[mutant] = why
	}
	return explained, errors.Join(problems...)
}

// report prints the score, and reports whether exactly the explained mutants survived.
func (r result) report(dir string, explained map[string]string) bool {
	ok, excused := true, 0
	for _, name := range slices.Sorted(maps.Keys(r.survivors)) {
		if explained[name] == "" {
			ok = false
			fmt.Printf("not explained, line %d: %s\n", r.lines[name], name)
			continue
		}
		excused += r.survivors[name]
	}
	for _, name := range slices.Sorted(maps.Keys(explained)) {
		if file, _, _ := strings.Cut(name, ":"); path.Dir(file) == dir && strings.Contains(name, *only) && r.survivors[name] == 0 {
			ok = false
			fmt.Println("explained, but killed or gone:", name)
		}
	}
	dead := r.counts[killed] + r.counts[hung]
	all := dead + r.counts[survived]
	fmt.Printf("%s: %d of %d mutants killed (%.1f %%), %d of them because their tests did not end; %d survivors explained, %d not; %d more do not compile; %v\n",
		dir, dead, all, 100*float64(dead)/float64(max(all, 1)), r.counts[hung], excused, r.counts[survived]-excused, r.counts[unviable], r.took.Round(time.Second))
	return ok
}
