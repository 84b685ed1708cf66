package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// LimitMemory gives a container of the node, whose cgroup has no limit of its own, one of
// so many bytes, as the pod's cgroup would be one where pods have any: beyond that the
// kernel kills. The id is that of the container's status.
func LimitMemory(id string, bytes int64) error {
	if _, short, found := strings.Cut(id, "://"); found {
		id = short
	}
	if id == "" {
		return fmt.Errorf("limiting a container: it has no id")
	}
	for _, path := range memoryFiles(id) {
		err := os.WriteFile(path, []byte(strconv.FormatInt(bytes, 10)), 0o600)
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("container %s has no cgroup whose memory can be limited", id)
}

// memoryFiles are where the limit of a container's cgroup may be: in the hierarchy of
// version 1's controller, or in that of version 2.
func memoryFiles(id string) (paths []string) {
	groups, _ := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, file := range groups {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			// hierarchy:controllers:path (cgroups(7))
			fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
			switch {
			case len(fields) < 3 || !strings.Contains(fields[2], id):
			case fields[1] == "memory":
				paths = append(paths, filepath.Join("/sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"))
			case fields[1] == "":
				paths = append(paths, filepath.Join("/sys/fs/cgroup", fields[2], "memory.max"))
			}
		}
	}
	return paths
}
