//go:build unix && !linux

package cluster

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// executableOf answers the path of a running process's program.
func executableOf(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
	return strings.TrimSpace(string(out)), err
}
