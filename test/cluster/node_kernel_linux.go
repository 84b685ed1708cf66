package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// cgroups answers the folders of the containers' cgroup: one for each controller
// of version 1, or one in version 2.
func cgroups() []string {
	one, _ := filepath.Glob("/sys/fs/cgroup/*/" + bridge)
	two, _ := filepath.Glob("/sys/fs/cgroup/" + bridge)
	return append(one, two...)
}

// endCgroup kills every process of the containers' cgroup and removes it.
func endCgroup(ctx context.Context) error {
	err := killUntilGone("container", func() []int {
		var pids []int
		for _, group := range cgroups() {
			_ = filepath.WalkDir(group, func(path string, _ fs.DirEntry, err error) error {
				if err == nil && filepath.Base(path) == "cgroup.procs" {
					text, _ := os.ReadFile(path)
					for field := range strings.FieldsSeq(string(text)) {
						if pid, err := strconv.Atoi(field); err == nil {
							pids = append(pids, pid)
						}
					}
				}
				return nil
			})
		}
		return pids
	})
	if err != nil {
		return err
	}
	var left []error
	for _, group := range cgroups() {
		var dirs []string
		_ = filepath.WalkDir(group, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) {
			if err := os.Remove(dir); err != nil && !os.IsNotExist(err) && ctx.Err() == nil {
				left = append(left, fmt.Errorf("removing a cgroup: %w", err))
			}
		}
	}
	return errors.Join(left...)
}

// removeChains removes the chains whose names begin with KUBE-, and the rules
// that jump to them. There is no other cluster's: see claimMachine.
func removeChains(ctx context.Context, iptables string) error {
	for _, table := range []string{"filter", "nat", "mangle"} {
		saved, err := exec.CommandContext(ctx, iptables+"-save", "-t", table).Output()
		if err != nil {
			return fmt.Errorf("%s-save: %w", iptables, err)
		}
		change := chainRemoval(table, string(saved))
		if change == "" {
			continue
		}
		cmd := exec.CommandContext(ctx, iptables+"-restore", "-w", "--noflush")
		cmd.Stdin = strings.NewReader(change)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s-restore: %w: %s", iptables, err, bytes.TrimSpace(out))
		}
	}
	return nil
}

// chainRemoval makes, from what iptables-save prints of a table, what
// iptables-restore has to read to remove the chains of Kubernetes. Empty where
// there is none.
func chainRemoval(table, saved string) string {
	var empty, rules, remove strings.Builder
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, ":KUBE-") {
			name, _, _ := strings.Cut(line[1:], " ")
			fmt.Fprintf(&empty, ":%s - [0:0]\n", name)
			fmt.Fprintf(&remove, "-X %s\n", name)
		} else if rule, ok := strings.CutPrefix(line, "-A "); ok && !strings.HasPrefix(rule, "KUBE-") && strings.Contains(rule, "-j KUBE-") {
			fmt.Fprintf(&rules, "-D %s\n", rule)
		}
	}
	if empty.Len() == 0 {
		return ""
	}
	return "*" + table + "\n" + empty.String() + rules.String() + remove.String() + "COMMIT\n"
}

// removeFiles removes what containerd, CNI and the kubelet keep at places that
// cannot be chosen: sockets of shims, results of CNI plugins, links to logs.
func removeFiles(nodeDir string) {
	addresses, _ := filepath.Glob(filepath.Join(nodeDir, "run", "io.containerd.runtime.v2.task", "*", "*", "address"))
	for _, file := range addresses {
		if text, err := os.ReadFile(file); err == nil {
			if socket, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "unix:///run/containerd/s/"); ok {
				_ = os.Remove(filepath.Join("/run/containerd/s", filepath.Base(socket)))
			}
		}
	}
	const results = "/var/lib/cni/results/"
	ours, _ := filepath.Glob(results + bridge + "-*-eth0")
	for _, file := range ours {
		sandbox := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), bridge+"-"), "-eth0")
		_ = os.Remove(file)
		_ = os.Remove(results + "cni-loopback-" + sandbox + "-lo")
	}
	links, _ := filepath.Glob("/var/log/containers/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, nodeDir+"/") {
			_ = os.Remove(link)
		}
	}
}
