// SPDX-License-Identifier: Apache-2.0

//go:debug randseednop=0

package world

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// alone is set in a process that runs one test.
var alone = flag.Bool("alone", false, "run the tests in this process, one after the other")

// TestMain runs each test in a process of its own, as many at a time as there are CPUs. The random numbers of core and of Kubernetes' libraries
// are of the process, so only one life runs at a time in it.
func TestMain(m *testing.M) {
	flag.Parse()
	part := strings.Contains(flag.Lookup("test.run").Value.String(), "/")
	if !*alone && *only == 0 && !part {
		os.Exit(runApart())
	}
	ctrl.SetLogger(logr.Discard()) // controller-runtime keeps each logger that it derives until it has this one
	runtime.GOMAXPROCS(1)          // a life is one thing after the other
	debug.SetGCPercent(400)        // it makes much garbage, and keeps little
	os.Exit(m.Run())
}

// runApart returns the exit code: 1 if a process failed or no test was found.
func runApart() int {
	code := 0
	var printing sync.Mutex
	processes, running := make(chan []string), sync.WaitGroup{}
	for range runtime.NumCPU() {
		running.Go(func() {
			for args := range processes {
				output, err := exec.Command(os.Args[0], append(given(), args...)...).CombinedOutput()
				printing.Lock()
				if err != nil {
					code = 1
				}
				if err != nil || testing.Verbose() {
					fmt.Printf("%s", output)
				}
				printing.Unlock()
			}
		})
	}
	tests := chosen()
	for _, test := range tests {
		for _, flags := range shares(test) {
			processes <- append([]string{"-test.run", "^" + test + "$"}, flags...)
		}
	}
	close(processes)
	running.Wait()
	if len(tests) == 0 {
		fmt.Println("no test has such a name")
		return 1
	}
	return code
}

// shares are the flags of the processes that run the test: one for each drawn life, and one for each CPU where lives
// are drawn for a while, or all points of a life are tried.
func shares(test string) (flags [][]string) {
	switch {
	case test == "TestLives" && *howLong > 0:
		for n := range runtime.NumCPU() {
			flags = append(flags, []string{fmt.Sprintf("-seed=%d", *first+uint64(n))})
		}
		return flags
	case test == "TestLives":
		for n := range *lives {
			flags = append(flags, []string{"-lives=1", fmt.Sprintf("-seed=%d", *first+uint64(n))})
		}
		return flags
	case strings.Contains(test, "AtEvery") && *every > 0:
		for n := range int64(runtime.NumCPU()) {
			flags = append(flags, []string{fmt.Sprintf("-every=%d", *every*int64(runtime.NumCPU())), fmt.Sprintf("-from=%d", *from+n**every)})
		}
		return flags
	}
	return [][]string{nil}
}

// given are the flags that this process was given, without those that say which tests run.
func given() []string {
	args := []string{"-alone"}
	flag.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "test.run", "test.skip", "test.testlogfile", "lives", "seed":
		default:
			args = append(args, "-"+f.Name+"="+f.Value.String())
		}
	})
	return args
}

// chosen are the tests that -run and -skip name.
func chosen() (tests []string) {
	run, skip := flag.Lookup("test.run").Value.String(), flag.Lookup("test.skip").Value.String()
	output, err := exec.Command(os.Args[0], "-alone", "-test.list", cmp.Or(run, ".")).Output()
	if err != nil {
		fmt.Println(err)
		return nil
	}
	for test := range strings.Lines(string(output)) {
		if test = strings.TrimSpace(test); skip == "" || !regexp.MustCompile(skip).MatchString(test) {
			tests = append(tests, test)
		}
	}
	return tests
}
