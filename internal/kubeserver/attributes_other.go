// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package kubeserver

import "syscall"

// attributes puts the child into its own process group. Only Linux can kill a child when its parent ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
