package certificates_test

import "syscall"

// childAttributes have the kernel end a process with the test.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
