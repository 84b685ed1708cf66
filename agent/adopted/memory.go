package adopted

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// meminfo reads what a node has, and what of it can be had without swapping, in bytes
// (proc_meminfo(5): MemTotal, MemAvailable). In a container too it is the node's.
func meminfo(path string) (total, available int64, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, fmt.Errorf("read the node's memory: %w", err)
	}
	total, ok := kilobytes(text, "MemTotal:")
	available, ok2 := kilobytes(text, "MemAvailable:")
	if !ok || !ok2 {
		return 0, 0, fmt.Errorf("read the node's memory: %s has no MemTotal or no MemAvailable", path)
	}
	return total, available, nil
}

// kilobytes reads a line like "MemTotal: 16 kB", in bytes.
func kilobytes(text []byte, name string) (int64, bool) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), name); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				value, err := strconv.ParseInt(fields[0], 10, 64)
				return value << 10, err == nil && value >= 0 && value < 1<<50
			}
		}
	}
	return 0, false
}

// used is the memory of a process and all that descend from it, in bytes: what is theirs
// alone, without files that the kernel keeps (proc_pid_status(5), RssAnon). The cgroup of
// the container would say the same, but which it is cannot be told for sure from inside,
// and another's would end what is innocent.
func used(proc string, pid int) int64 {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return 0
	}
	parents, sizes := map[int]int{}, map[int]int64{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(proc, e.Name(), "status"))
		if err != nil {
			continue // it has ended
		}
		sizes[id], _ = kilobytes(text, "RssAnon:") // the kernel's own have none
		parents[id] = parent(text)
	}
	var sum int64
	for id := range sizes {
		if descends(parents, id, pid) {
			sum += sizes[id]
		}
	}
	return sum
}

func parent(status []byte) int {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("PPid:")); ok {
			id, _ := strconv.Atoi(string(bytes.TrimSpace(rest)))
			return id
		}
	}
	return 0
}

// descends tells whether a process is another, or comes from it. What was read of two
// processes at two moments may make a circle.
func descends(parents map[int]int, id, from int) bool {
	for range len(parents) + 1 {
		if id == from {
			return true
		}
		next, ok := parents[id]
		if !ok {
			return false
		}
		id = next
	}
	return false
}
