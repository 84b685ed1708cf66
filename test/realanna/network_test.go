// Package realanna holds the sidecar beside Anna itself: where STATEGRAFT_ANNA names a
// directory with anna-kvs and anna-route, clusters of them are started on this machine,
// each node in a network of its own, with a sidecar each. It needs root. Nothing of Anna
// is here.
//
//	network_test.go   a network of its own for a test, with names
//	node_test.go      a node of Anna, started and killed
//	sidecar_test.go   its sidecar, in a process of its own
//	cluster_test.go   nodes together
//	restore_test.go   backups, the loss of everything, replay into another cluster
//	disk_test.go      the same where only the disk tier has the keys
//	rates_test.go     against the plain protocol
//	members_test.go   nodes that come and go
//	together_test.go  nodes that start together
package realanna

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const (
	programsEnv = "STATEGRAFT_ANNA"         // a directory with anna-kvs and anna-route
	insideEnv   = "STATEGRAFT_ANNA_NETWORK" // set in the process that has a network of its own
	// gateway is where the test is, and its clients.
	gateway = "10.78.0.1"
)

// outside runs the test again in a network and with names of its own, and is true then:
// that was all. Anna binds fixed ports on all addresses.
func outside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(programsEnv) == "" {
		t.Skip(programsEnv + " names no directory with Anna's programs")
	}
	if os.Getenv(insideEnv) != "" {
		return false
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=40m")
	cmd.Env = append(os.Environ(), insideEnv+"=yes")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return true
}

func run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
}

// network is a bridge with the test on it, and the names that all processes find in
// /etc/hosts, as Anna's do in DNS.
type network struct {
	t     *testing.T
	dir   string
	hosts string // stands in for /etc/hosts
	mutex sync.Mutex
	names zone
	count int // of interfaces
}

// zone is a DNS in a file: pods' addresses by their names.
type zone map[string]string

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{t: t, dir: t.TempDir(), names: zone{}}
	n.hosts = filepath.Join(n.dir, "hosts")
	n.write()
	resolv := filepath.Join(n.dir, "resolv.conf")
	must(t, os.WriteFile(resolv, nil, 0o644))
	run(t, "mount", "--make-rprivate", "/")
	run(t, "mount", "--bind", n.hosts, "/etc/hosts")
	run(t, "mount", "--bind", resolv, "/etc/resolv.conf") // who is not in the file is nowhere
	run(t, "ip", "link", "set", "lo", "up")
	run(t, "ip", "link", "add", "anna", "type", "bridge")
	run(t, "ip", "addr", "add", gateway+"/16", "dev", "anna")
	run(t, "ip", "link", "set", "anna", "up")
	return n
}

// wire gives the network of a process an address on the bridge.
func (n *network) wire(pid int, ip string) {
	n.t.Helper()
	n.count++
	name, process := fmt.Sprintf("node%d", n.count), fmt.Sprint(pid)
	run(n.t, "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", process)
	run(n.t, "ip", "link", "set", name, "master", "anna")
	run(n.t, "ip", "link", "set", name, "up")
	for _, args := range [][]string{{"link", "set", "lo", "up"}, {"addr", "add", ip + "/16", "dev", "eth0"}, {"link", "set", "eth0", "up"}} {
		run(n.t, append([]string{"nsenter", "-t", process, "-n", "ip"}, args...)...)
	}
}

// name sets the address of a name; an empty one removes it.
func (n *network) name(host, ip string) {
	n.t.Helper()
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.names[host] = ip; ip == "" {
		delete(n.names, host)
	}
	n.write()
}

// write writes both files. That of hosts stays the same file: it is mounted.
func (n *network) write() {
	n.t.Helper()
	text := "127.0.0.1 localhost\n"
	for host, ip := range n.names {
		text += ip + " " + host + "\n"
	}
	must(n.t, os.WriteFile(n.hosts, []byte(text), 0o644))
	all, err := json.Marshal(n.names)
	must(n.t, err)
	must(n.t, os.WriteFile(n.zone()+".new", all, 0o644))
	must(n.t, os.Rename(n.zone()+".new", n.zone()))
}

func (n *network) zone() string { return filepath.Join(n.dir, "zone.json") }

// resolver is a DNS that says what the file has now: of a Service the pods below it.
type resolver string

func (r resolver) read() (zone, error) {
	text, err := os.ReadFile(string(r))
	var z zone
	if err == nil {
		err = json.Unmarshal(text, &z)
	}
	return z, err
}

func none(name string) error {
	return &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (r resolver) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	z, err := r.read()
	if err != nil {
		return "", nil, err
	}
	var all []*net.SRV
	for host := range z {
		if strings.HasSuffix(host+".", "."+name) {
			all = append(all, &net.SRV{Target: host + "."})
		}
	}
	if len(all) == 0 {
		return "", nil, none(name)
	}
	return name, all, nil
}

func (r resolver) LookupHost(_ context.Context, name string) ([]string, error) {
	z, err := r.read()
	if err != nil {
		return nil, err
	}
	var all []string
	for host, ip := range z {
		if host == strings.TrimSuffix(name, ".") || strings.HasSuffix(host, "."+strings.TrimSuffix(name, ".")) {
			all = append(all, ip)
		}
	}
	if len(all) == 0 {
		return nil, none(name)
	}
	slices.Sort(all)
	return all, nil
}

func (r resolver) LookupAddr(_ context.Context, addr string) ([]string, error) {
	return nil, none(addr)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
