// SPDX-License-Identifier: Apache-2.0

package kubeserver

import "syscall"

// attributes puts the child into its own process group and has the kernel kill the child when its parent ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
