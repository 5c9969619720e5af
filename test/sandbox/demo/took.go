// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/capportal/cluster-api-provider-portal/test/sandbox"
)

// took records how long each step took last time on this machine, in a file in bin/. If the file cannot be read or written, the
// demonstration runs without it.
type took struct {
	file    string
	Seconds map[string]float64 `json:"seconds"` // by the name of the step
}

// readTook reads the times of the last run, from the checkout root or, if root is empty, from the one around the working directory.
func readTook(root string) *took {
	t := &took{Seconds: map[string]float64{}}
	if root == "" {
		var err error
		if root, err = sandbox.FindRoot(); err != nil {
			return t
		}
	}
	t.file = filepath.Join(root, "bin", ".demo-took.json")
	if data, err := os.ReadFile(t.file); err == nil {
		_ = json.Unmarshal(data, t) // a file of another version counts as missing
	}
	if t.Seconds == nil {
		t.Seconds = map[string]float64{}
	}
	return t
}

// record stores how long a step took that began at the given time.
func (t *took) record(name string, begin time.Time) {
	t.Seconds[name] = time.Since(begin).Seconds()
	if data, err := json.Marshal(t); err == nil && t.file != "" {
		_ = os.WriteFile(t.file, data, 0o600) // without the file, the next run announces no times
	}
}

// last describes how long a step took last time.
func (t *took) last(name string) string {
	if seconds, known := t.Seconds[name]; known {
		return fmt.Sprintf("%4.0f s", seconds)
	}
	return "     ?"
}

// announce prints the steps of the demonstration, and how long each took last time.
func (d *demo) announce() {
	say(d.out, "What happens now, and how long it took here last time (? for the first time; all of it takes about 3 minutes)")
	indent(d.out, d.took.last(startStep)+"  "+startStep)
	for _, step := range d.steps() {
		indent(d.out, d.took.last(step.name)+"  "+step.name)
	}
}
