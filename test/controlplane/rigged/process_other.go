//go:build !linux

package rigged

import "syscall"

// childAttributes put the webhook into a process group of its own, so that an
// interrupt at the terminal leaves stopping it to us.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
