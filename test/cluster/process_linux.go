package cluster

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// executableOf answers the path of a running process's program.
func executableOf(pid int) (string, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	// Linux marks a program whose file was removed or replaced.
	return strings.TrimSuffix(path, " (deleted)"), err
}
