// SPDX-License-Identifier: Apache-2.0

package kubeserver

import "syscall"

// attributes puts the child into a process group of its own and has the kernel kill it when its parent ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
