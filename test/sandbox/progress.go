// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress prints what is up and how long it took.
type progress struct {
	mu  sync.Mutex
	out io.Writer
}

// step does something and prints a line when it is done; errors say what was being done.
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
