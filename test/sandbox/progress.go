// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress prints each started part and how long its start took.
type progress struct {
	mu  sync.Mutex
	out io.Writer
}

// step calls do and prints a line when it is done. Errors contain the name of the step.
func (p *progress) step(name string, do func() error) error {
	begin := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if p.out == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintf(p.out, "%6.1f s  %s\n", time.Since(begin).Seconds(), name)
	return err
}
