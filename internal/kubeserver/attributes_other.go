// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package kubeserver

import "syscall"

// attributes puts the child into a process group of its own. Only Linux can tie its life to its parent's.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
