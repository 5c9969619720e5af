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

// births hands commands to the one goroutine that starts them all. The kernel takes the death of the *thread* that
// started a child for the death of its parent, and Go ends threads when it likes; so all children are started from a
// thread that is never given up.
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
