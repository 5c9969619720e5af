// SPDX-License-Identifier: Apache-2.0

package kubeserver

import (
	"os/exec"
	"runtime"
	"sync"
)

type birth struct {
	cmd *exec.Cmd
	err chan<- error
}

// births sends commands to the one goroutine that starts them all. If the *thread* that started a child ends, the kernel treats this as the
// death of the child's parent, and Go may end any thread. So all children are started from one locked thread that never ends.
var births = sync.OnceValue(func() chan<- birth {
	queue := make(chan birth)
	go func() {
		runtime.LockOSThread()
		for b := range queue {
			b.err <- b.cmd.Start()
		}
	}()
	return queue
})

func spawn(cmd *exec.Cmd) error {
	err := make(chan error)
	births() <- birth{cmd, err}
	return <-err
}
