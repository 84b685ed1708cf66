package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// KillContainer kills all processes of a container of the node with SIGKILL, as
// the kernel does where memory is short. The id is that of the container's
// status, with or without "containerd://".
func KillContainer(id string) error {
	if _, short, found := strings.Cut(id, "://"); found {
		id = short
	}
	if id == "" {
		return fmt.Errorf("killing a container: it has no id")
	}
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return err
	}
	killed := 0
	for _, path := range groups {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), id) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	if killed == 0 {
		return fmt.Errorf("container %s has no process", id)
	}
	return nil
}
