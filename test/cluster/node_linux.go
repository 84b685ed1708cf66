package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// bridge is the name of the pods' network, its bridge and the cgroup that all
	// containers are in.
	bridge = "stategraft0"
	// markerPath is there while a node uses the machine, and after one that was
	// killed. Its lock tells which of the two.
	markerPath = "/run/stategraft-rig-node"
)

// sysctls are what the kubelet, kube-proxy and this package set.
var sysctls = []string{"net/ipv4/ip_forward", "vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"}

// marker is the note of what a node has changed on the machine.
type marker struct {
	file *os.File

	Dir     string            `json:"dir"` // state folder
	Sysctls map[string]string `json:"sysctls"`
}

// claimMachine makes dir's node the only one, and removes what one that was
// killed has left, whatever its state folder was.
func claimMachine(ctx context.Context, dir string) (*marker, error) {
	m, err := openMarker()
	if err != nil {
		return nil, err
	}
	if m.Dir != "" {
		err = m.clean(ctx)
	} else {
		err = refuseOther(ctx)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	m.Dir, m.Sysctls = dir, map[string]string{}
	for _, name := range sysctls {
		value, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			m.Close()
			return nil, fmt.Errorf("reading a kernel setting: %w", err)
		}
		m.Sysctls[name] = string(bytes.TrimSpace(value))
	}
	if err := m.write(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// refuseOther is an error where the machine is a node of another cluster:
// cleaning would break its rules.
func refuseOther(ctx context.Context) error {
	saved, err := exec.CommandContext(ctx, "iptables-save", "-t", "nat").Output()
	if err != nil {
		return fmt.Errorf("asking iptables: %w", err)
	}
	if bytes.Contains(saved, []byte(":KUBE-SERVICES ")) {
		return errors.New("this machine is a node of another cluster already: it has the iptables chain KUBE-SERVICES")
	}
	return nil
}

// openMarker takes the lock and reads the note.
func openMarker() (*marker, error) {
	f, err := os.OpenFile(markerPath, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the node's marker: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, errors.New("another program runs a node on this machine")
	}
	m := &marker{file: f}
	text, err := os.ReadFile(markerPath)
	if err == nil && len(text) > 0 {
		err = json.Unmarshal(text, m)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("reading the node's marker %s: %w", markerPath, err)
	}
	return m, nil
}

func (m *marker) write() error {
	text, err := json.Marshal(m)
	if err == nil {
		err = os.WriteFile(markerPath, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the node's marker: %w", err)
	}
	return nil
}

// Close gives up the lock.
func (m *marker) Close() error { return m.file.Close() }

// cleanNode removes what a killed node with the state folder dir has left.
func cleanNode(ctx context.Context, dir string) error {
	if text, err := os.ReadFile(markerPath); err != nil || !bytes.Contains(text, []byte(strconv.Quote(dir))) {
		return nil
	}
	m, err := openMarker()
	if err != nil {
		return err
	}
	defer m.Close()
	return m.clean(ctx)
}

// prepareNetwork makes the bridge before there is a pod: its address is the
// node's.
func (m *marker) prepareNetwork(ctx context.Context) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"link", "add", bridge, "type", "bridge"},
		{"address", "add", NodeIP + "/24", "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
		}
	}
	return os.MkdirAll("/sys/fs/cgroup/memory/"+bridge, 0o755)
}

// clean ends the containers, their shims and what servers a killed rig left, and
// takes back what was changed on the machine. The note goes last.
func (m *marker) clean(ctx context.Context) error {
	nodeDir := state{m.Dir}.node("")
	left := []error{m.killServers(), endShims(nodeDir), endCgroup(ctx), unmountBelow(nodeDir)}
	if _, err := os.Stat("/sys/class/net/" + bridge); err == nil {
		out, err := exec.CommandContext(ctx, "ip", "link", "delete", bridge).CombinedOutput()
		if err != nil {
			left = append(left, fmt.Errorf("removing the bridge: %w: %s", err, bytes.TrimSpace(out)))
		}
	}
	for _, iptables := range []string{"iptables", "ip6tables"} {
		left = append(left, removeChains(ctx, iptables))
	}
	for name, value := range m.Sysctls {
		left = append(left, os.WriteFile("/proc/sys/"+name, []byte(value), 0))
	}
	removeFiles(nodeDir)
	if err := errors.Join(left...); err != nil {
		return err
	}
	m.Dir, m.Sysctls = "", nil
	return os.Truncate(markerPath, 0)
}

// killServers ends servers of a killed rig that the kernel has not ended.
func (m *marker) killServers() error {
	files, _ := filepath.Glob(state{m.Dir}.pidFile("*"))
	for _, file := range files {
		if pid := readPidFile(file); pid != 0 && pid != os.Getpid() {
			_ = syscall.Kill(-pid, syscall.SIGKILL)
			awaitEnd(context.Background(), file, killGrace)
			if readPidFile(file) != 0 {
				return fmt.Errorf("process %d (%s) does not end", pid, filepath.Base(file))
			}
		}
	}
	return nil
}

// endShims kills the shims of the containerd with its socket in nodeDir.
func endShims(nodeDir string) error {
	address := []byte("\x00-address\x00" + filepath.Join(nodeDir, "containerd.sock") + "\x00")
	return killUntilGone("shim", func() []int {
		var pids []int
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err == nil && bytes.Contains(text, []byte("containerd-shim")) && bytes.Contains(text, address) {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
				pids = append(pids, pid)
			}
		}
		return pids
	})
}

// killUntilGone kills what list answers until that is nothing.
func killUntilGone(what string, list func() []int) error {
	deadline := time.Now().Add(killGrace)
	for {
		pids := list()
		if len(pids) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes of a %s do not end: %v", what, pids)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// unmountBelow unmounts everything in the folder, the latest mount first.
func unmountBelow(dir string) error {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer f.Close()
	var points []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 36 35 98:0 /root /mount/point options …; kernels escape blanks only.
		if fields := strings.Fields(lines.Text()); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			points = append(points, strings.ReplaceAll(fields[4], `\040`, " "))
		}
	}
	var left []error
	for _, point := range slices.Backward(points) {
		if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
			left = append(left, fmt.Errorf("unmounting %s: %w", point, err))
		}
	}
	return errors.Join(left...)
}
